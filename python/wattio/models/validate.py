"""Predictions against measured runs: the error of each time, and of the ranking.

What the model must beat are baselines: a straight line, and always the same approach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattio.analysis.statistics import Interval
from wattio.errors import InputError
from wattio.models import parameter, scenario
from wattio.models.approach import Approach
from wattio.models.runs import Run
from wattio.models.scenario import Platform

ALWAYS = Approach("dc", 1)
"""What the baseline without a line takes for every run."""

MODEL, LINE, CONSTANT = "the model", "a straight line", f"always {ALWAYS}"

DRAWS = 5000

COVERAGE = (0.85, 0.95)
"""The share of held-out runs that 95 % intervals should hold: fewer is too sure, more too vague."""


@dataclass(frozen=True)
class Line:
    """Seconds of a step, and of a dump, of each approach; of so many nodes, ranks and cells.

    It knows what the model knows of the runs that were fitted to, and none of its equations.
    """

    of: Mapping[Approach, tuple[float, float]]
    nodes: int
    cores: int
    cells: int
    profiles: Mapping[tuple[int, int, int], float]

    def time_s(self, run: Run, approach: Approach | None = None) -> float | None:
        """What the line says of a run, or of the same with another approach; None for nothing.

        On another grid, or with other ranks, a step takes as much longer as one without output
        does, and a dump what it takes here: a line knows nothing of bytes.
        """
        found = self.of.get(approach or run.approach)
        here = self.profiles.get((self.nodes, self.cores, self.cells))
        there = self.profiles.get((run.nodes, run.cores, run.cells))
        if found is None:
            return None
        step_s, dump_s = found
        if (run.nodes, run.cores, run.cells) != (self.nodes, self.cores, self.cells):
            if here is None or there is None:
                return None
            step_s *= there / here
        return run.steps * step_s + run.dumps * dump_s


def straight_line(fitted: Sequence[Run]) -> Line | None:
    """Least squares through the runs that were fitted to, of the largest grid and most ranks.

    An approach needs two frequencies of output. None without runs that wrote.
    """
    written = [run for run in fitted if run.writes and run.is_usable]
    if not written:
        return None
    shape = max((run.nodes, run.cores, run.cells) for run in written)
    alike = [run for run in written if (run.nodes, run.cores, run.cells) == shape]
    found = {}
    for approach in {run.approach for run in alike}:
        mine = [run for run in alike if run.approach == approach]
        often = [run.dumps / run.steps for run in mine]
        if len(set(often)) > 1:
            slope, start = np.polyfit(often, [run.time_s / run.steps for run in mine], 1)
            found[approach] = (float(start), float(slope))
    steps: dict[tuple[int, int, int], list[float]] = {}
    for run in fitted:
        if not run.writes and run.is_usable:
            steps.setdefault((run.nodes, run.cores, run.cells), []).append(run.step_s)
    profiles = {key: float(np.median(values)) for key, values in steps.items()}
    return Line(found, *shape, profiles)


@dataclass(frozen=True)
class Compared:
    """Repetitions of a run, the median of their times, and the predicted one with its interval.

    `line_s` and `always_s` are what the baselines say, None if they cannot.
    """

    run: Run
    measured_s: float
    repetitions: int
    time_s: Interval
    line_s: float | None = None
    always_s: float | None = None

    @property
    def deviation(self) -> float:
        """Of the predicted time from the measured one, relative."""
        return self.time_s.estimate / self.measured_s - 1

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds the measured time."""
        return self.time_s.low <= self.measured_s <= self.time_s.high


@dataclass(frozen=True)
class Ranking:
    """Approaches of one configuration, the fastest first: measured and predicted.

    `regret` is how much longer the predicted first takes than the measured one, as measured.
    """

    ranks: int
    cells: int
    output_every: int
    measured: tuple[Approach, ...]
    predicted: tuple[Approach, ...]
    regret: float

    @property
    def pairs_right(self) -> tuple[int, int]:
        """How many pairs of approaches are predicted in their measured order, and of how many."""
        place = {approach: at for at, approach in enumerate(self.predicted)}
        order = [place[approach] for approach in self.measured]
        pairs = [(a, b) for at, a in enumerate(order) for b in order[at + 1 :]]
        return sum(a < b for a, b in pairs), len(pairs)


@dataclass(frozen=True)
class Validation:
    """Runs that were kept out of the calibration, and what was predicted for them.

    `left_out` are those that cannot be predicted, with the reason.
    """

    compared: tuple[Compared, ...]
    rankings: tuple[Ranking, ...]
    left_out: tuple[tuple[Run, str], ...]

    @property
    def median_error(self) -> float | None:
        """Median of the deviations' sizes."""
        sizes = [abs(one.deviation) for one in self.compared]
        return float(np.median(sizes)) if sizes else None

    def as_object(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "median_error": self.median_error,
            "methods": [one.as_object() for one in scores([self])],
            "inside_95_percent": sum(one.is_inside for one in self.compared),
            "runs": [
                {
                    "repetitions": one.repetitions,
                    "approach": str(one.run.approach),
                    "nodes": one.run.nodes,
                    "ranks": one.run.nodes * one.run.cores,
                    "cells": one.run.cells,
                    "output_every": one.run.output_every,
                    "time_s_measured": one.measured_s,
                    "time_s_predicted": one.time_s.estimate,
                    "low": one.time_s.low,
                    "high": one.time_s.high,
                    "deviation": one.deviation,
                    "time_s_straight_line": one.line_s,
                    f"time_s_always_{ALWAYS}": one.always_s,
                }
                for one in self.compared
            ],
            "rankings": [
                {
                    "ranks": one.ranks,
                    "cells": one.cells,
                    "output_every": one.output_every,
                    "measured": [str(approach) for approach in one.measured],
                    "predicted": [str(approach) for approach in one.predicted],
                    "pairs_right": one.pairs_right[0],
                    "pairs": one.pairs_right[1],
                    "regret": one.regret,
                }
                for one in self.rankings
            ],
            "left_out": [{"source": run.source, "why": why} for run, why in self.left_out],
        }


@dataclass(frozen=True)
class Score:
    """One way of predicting, over the same held-out runs as the others.

    Errors are relative and of times; `pairs` are those of approaches in their measured order, and
    all; `firsts` the cases whose fastest approach was named, and all; `regret_mean` and
    `regret_worst` how much longer the named approach takes than the fastest, as measured.
    `intervals` are the times within their 95 % intervals, and all; None without intervals.
    """

    method: str
    times: int
    error_median: float
    error_worst: float
    pairs: tuple[int, int]
    firsts: tuple[int, int]
    regret_mean: float
    regret_worst: float
    intervals: tuple[int, int] | None = None

    def as_object(self) -> dict[str, Any]:
        """As plain data."""
        inside = None if self.intervals is None else self.intervals[0]
        return {
            "method": self.method,
            "times": self.times,
            "error_median": self.error_median,
            "error_worst": self.error_worst,
            "pairs_right": self.pairs[0],
            "pairs": self.pairs[1],
            "firsts_right": self.firsts[0],
            "cases": self.firsts[1],
            "regret_mean": self.regret_mean,
            "regret_worst": self.regret_worst,
            "inside_95_percent": inside,
        }


def scores(validations: Iterable[Validation]) -> list[Score]:
    """The model beside both baselines, over all held-out runs that each of them predicts."""
    cases: list[list[Compared]] = []
    for one in validations:
        groups: dict[tuple[int, ...], list[Compared]] = {}
        for row in one.compared:
            if row.line_s is not None and row.always_s is not None:
                run = row.run
                key = (run.nodes, run.cores, run.cells, run.output_every, run.steps)
                groups.setdefault(key, []).append(row)
        cases += groups.values()
    rows = [row for case in cases for row in case]
    if not rows:
        return []
    inside = (sum(row.is_inside for row in rows), len(rows))
    predicted = {
        MODEL: [[row.time_s.estimate for row in case] for case in cases],
        LINE: [[row.line_s or 0.0 for row in case] for case in cases],
        CONSTANT: [[row.always_s or 0.0 for row in case] for case in cases],
    }
    return [
        _score(method, cases, times, inside if method == MODEL else None)
        for method, times in predicted.items()
    ]


def _score(
    method: str,
    cases: Sequence[Sequence[Compared]],
    predicted: Sequence[Sequence[float]],
    intervals: tuple[int, int] | None,
) -> Score:
    errors, regrets, right, pairs, firsts = [], [], 0, 0, 0
    for case, times in zip(cases, predicted, strict=True):
        measured = [row.measured_s for row in case]
        errors += [abs(ours / known - 1) for ours, known in zip(times, measured, strict=True)]
        # What always takes one approach puts that before all others, and no two of these in order.
        order = [float(row.run.approach != ALWAYS) for row in case] if method == CONSTANT else times
        if len(case) < 2:
            continue
        for a in range(len(case)):
            for b in range(a):
                pairs += 1
                right += (order[a] - order[b]) * (measured[a] - measured[b]) > 0
        regret = measured[int(np.argmin(order))] / min(measured) - 1
        regrets.append(regret)
        firsts += regret == 0
    return Score(
        method,
        len(errors),
        float(np.median(errors)),
        max(errors),
        (right, pairs),
        (firsts, len(regrets)),
        float(np.mean(regrets)) if regrets else 0.0,
        max(regrets, default=0.0),
        intervals,
    )


def told(found: Sequence[Score]) -> str:
    """In a sentence: where the model does not beat the baselines. Empty without scores."""
    if not found:
        return ""
    model, *others = found
    lost = []
    for other in others:
        what = [
            name
            for name, ours, theirs in (
                ("the median error", model.error_median, other.error_median),
                ("the worst error", model.error_worst, other.error_worst),
                ("pairs in order", -model.pairs[0], -other.pairs[0]),
                ("first places", -model.firsts[0], -other.firsts[0]),
                ("the mean regret of its choice", model.regret_mean, other.regret_mean),
            )
            if ours >= theirs
        ]
        if what:
            lost.append(f"{other.method} by {', '.join(what)}")
    if not lost:
        return "The model beats both baselines by every figure of the table."
    return f"The model does not beat {'; nor '.join(lost)}."


def validate(
    platform: Platform, runs: Sequence[Run], seed: int = 1, fitted: Sequence[Run] = ()
) -> Validation:
    """Predict runs that wrote, and rank the approaches of runs that are alike but for those.

    Each on as many nodes and ranks as it had, where the platform has speedups for those. The
    baselines are made of the runs that the platform was fitted to.
    """
    line = straight_line(fitted)
    left_out = []
    groups: dict[tuple[Approach, int, int, int, int, int], list[Run]] = {}
    for run in runs:
        if not run.writes:
            continue
        why = _unpredictable(run, platform)
        if why is not None:
            left_out.append((run, why))
            continue
        key = (run.approach, run.nodes, run.cores, run.cells, run.output_every, run.steps)
        groups.setdefault(key, []).append(run)
    values = parameter.draw(platform.parameters, DRAWS, seed)
    compared = []
    for alike in groups.values():
        one = alike[0]
        here = platform.with_ranks(one.nodes, one.cores)
        found = scenario.predict(one.approach, here, one.application, values)
        found = scenario.discrepant(found, one.application, values, seed)
        measured_s = float(np.median([run.time_s for run in alike]))
        always = None if line is None else line.time_s(one, ALWAYS)
        compared.append(
            Compared(
                one,
                measured_s,
                len(alike),
                parameter.interval(found.time_s),
                None if line is None else line.time_s(one),
                always,
            )
        )
    return Validation(tuple(compared), tuple(_rankings(compared)), tuple(left_out))


def _unpredictable(run: Run, platform: Platform) -> str | None:
    if not run.is_whole:
        return "dumps failed or were dropped"
    if run.written_through:
        return "ranks that compute wrote by themselves, as the buffer was full"
    try:
        central = parameter.central(platform.parameters)
        here = platform.with_ranks(run.nodes, run.cores)
        scenario.predict(run.approach, here, run.application, central)
    except InputError as error:
        return str(error)
    return None


def _rankings(compared: Sequence[Compared]) -> list[Ranking]:
    groups: dict[tuple[int, int, int, int, int], dict[Approach, Compared]] = {}
    for one in compared:
        key = (one.run.nodes, one.run.cores, one.run.cells, one.run.output_every, one.run.steps)
        groups.setdefault(key, {})[one.run.approach] = one
    found = []
    for (nodes, cores, cells, every, _), approaches in sorted(groups.items()):
        if len(approaches) < 2:
            continue
        order = sorted(approaches, key=lambda a: approaches[a].measured_s)
        guess = sorted(approaches, key=lambda a: approaches[a].time_s.estimate)
        regret = approaches[guess[0]].measured_s / approaches[order[0]].measured_s - 1
        found.append(Ranking(nodes * cores, cells, every, tuple(order), tuple(guess), regret))
    return found
