"""Predictions against measured runs: the error of each time, and of the ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattio.analysis.statistics import Interval
from wattio.errors import InputError
from wattio.models import advice, parameter, scenario
from wattio.models.approach import Approach
from wattio.models.runs import Run
from wattio.models.scenario import Platform

DRAWS = 5000


@dataclass(frozen=True)
class Compared:
    """Repetitions of a run, the median of their times, and the predicted one with its interval."""

    run: Run
    measured_s: float
    repetitions: int
    time_s: Interval

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
            "inside_95_percent": sum(one.is_inside for one in self.compared),
            "runs": [
                {
                    "repetitions": one.repetitions,
                    "approach": str(one.run.approach),
                    "cells": one.run.cells,
                    "output_every": one.run.output_every,
                    "time_s_measured": one.measured_s,
                    "time_s_predicted": one.time_s.estimate,
                    "low": one.time_s.low,
                    "high": one.time_s.high,
                    "deviation": one.deviation,
                }
                for one in self.compared
            ],
            "rankings": [
                {
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


def validate(platform: Platform, runs: Sequence[Run], seed: int = 1) -> Validation:
    """Predict runs that wrote, and rank the approaches of runs that are alike but for those."""
    left_out = []
    groups: dict[tuple[Approach, int, int, int], list[Run]] = {}
    for run in runs:
        if not run.writes:
            continue
        why = _unpredictable(run, platform)
        if why is not None:
            left_out.append((run, why))
            continue
        key = (run.approach, run.cells, run.output_every, run.steps)
        groups.setdefault(key, []).append(run)
    values = parameter.draw(platform.parameters, DRAWS, seed)
    compared = []
    for alike in groups.values():
        one = alike[0]
        found = scenario.predict(one.approach, platform, one.application, values)
        measured_s = float(np.median([run.time_s for run in alike]))
        compared.append(Compared(one, measured_s, len(alike), advice.interval(found.time_s)))
    return Validation(tuple(compared), tuple(_rankings(compared)), tuple(left_out))


def _unpredictable(run: Run, platform: Platform) -> str | None:
    if not run.is_whole:
        return "dumps failed or were dropped"
    if run.written_through:
        return "ranks that compute wrote by themselves, as the buffer was full"
    if (run.nodes, run.cores) != (platform.nodes, platform.cores):
        return f"{run.nodes} nodes of {run.cores} ranks, not {platform.nodes} of {platform.cores}"
    try:
        central = parameter.central(platform.parameters)
        scenario.predict(run.approach, platform, run.application, central)
    except InputError as error:
        return str(error)
    return None


def _rankings(compared: Sequence[Compared]) -> list[Ranking]:
    groups: dict[tuple[int, int, int], dict[Approach, Compared]] = {}
    for one in compared:
        key = (one.run.cells, one.run.output_every, one.run.steps)
        groups.setdefault(key, {})[one.run.approach] = one
    found = []
    for (cells, every, _), approaches in sorted(groups.items()):
        if len(approaches) < 2:
            continue
        order = sorted(approaches, key=lambda a: approaches[a].measured_s)
        guess = sorted(approaches, key=lambda a: approaches[a].time_s.estimate)
        regret = approaches[guess[0]].measured_s / approaches[order[0]].measured_s - 1
        found.append(Ranking(cells, every, tuple(order), tuple(guess), regret))
    return found
