"""Predictions against measured runs: the error of each time, and of the ranking."""

from __future__ import annotations

import math
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
    """A run's time and the predicted one, median with a 95 % interval."""

    run: Run
    time_s: Interval

    @property
    def deviation(self) -> float:
        """Of the predicted time from the measured one, relative."""
        return self.time_s.estimate / self.run.time_s - 1

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds the measured time."""
        return self.time_s.low <= self.run.time_s <= self.time_s.high


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
                    "source": one.run.source,
                    "approach": str(one.run.approach),
                    "cells": one.run.cells,
                    "output_every": one.run.output_every,
                    "time_s_measured": one.run.time_s,
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
    compared, left_out = [], []
    values = parameter.draw(platform.parameters, DRAWS, seed)
    for run in runs:
        if not run.writes:
            continue
        if not run.is_whole:
            left_out.append((run, "dumps failed or were dropped"))
            continue
        if (run.nodes, run.cores) != (platform.nodes, platform.cores):
            why = (
                f"{run.nodes} nodes of {run.cores} ranks, not {platform.nodes} of {platform.cores}"
            )
            left_out.append((run, why))
            continue
        try:
            found = scenario.predict(run.approach, platform, run.application, values)
        except InputError as error:
            left_out.append((run, str(error)))
            continue
        compared.append(Compared(run, advice.interval(found.time_s)))
    return Validation(tuple(compared), tuple(_rankings(compared)), tuple(left_out))


def _rankings(compared: Sequence[Compared]) -> list[Ranking]:
    groups: dict[tuple[int, int, int], dict[Approach, list[Compared]]] = {}
    for one in compared:
        key = (one.run.cells, one.run.output_every, one.run.steps)
        groups.setdefault(key, {}).setdefault(one.run.approach, []).append(one)
    found = []
    for (cells, every, _), approaches in sorted(groups.items()):
        if len(approaches) < 2:
            continue
        measured = {a: _mean([one.run.time_s for one in all_]) for a, all_ in approaches.items()}
        predicted = {
            a: _mean([one.time_s.estimate for one in all_]) for a, all_ in approaches.items()
        }
        order = sorted(measured, key=lambda a: measured[a])
        guess = sorted(predicted, key=lambda a: predicted[a])
        regret = measured[guess[0]] / measured[order[0]] - 1
        found.append(Ranking(cells, every, tuple(order), tuple(guess), regret))
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
