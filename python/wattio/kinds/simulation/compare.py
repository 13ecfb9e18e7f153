"""Comparison of two results, metric by metric, as ratios with confidence intervals.

Where both sides have several seeds or repetitions in common, whole iterations are drawn, in pairs.
Where there is one run each, stretches of its latency windows are drawn (moving blocks), which says
how steady the ratio is along the run, but nothing about other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattio.analysis import statistics
from wattio.analysis.histogram import WindowHistograms
from wattio.analysis.statistics import Interval
from wattio.errors import InputError
from wattio.files.document import nearest
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.results.runs import Recorded
from wattio.simulator.simulation import Outcome

METRICS = (
    "power_w_mean",
    "energy_j",
    "iops_mean",
    "iops_per_watt",
    "latency_us_mean",
    "latency_us_p99",
    "background_rate_mean",
)
"""What is compared, in this order."""

SEED = 1
"""Seed of every bootstrap here: the same comparison always gives the same interval."""

STRETCHES = 1200
"""Most stretches that the windows of a run are joined into before blocks of them are drawn."""

RESAMPLES = 1000
"""Draws for each interval."""


@dataclass(frozen=True)
class Side:
    """A result folder, and the run in it where one is named."""

    folder: SimulationFolder
    run: str | None

    @classmethod
    def parse(cls, text: str) -> Side:
        """Read `FOLDER` or `FOLDER:LOAD/POLICY`. Raises InputError for an unknown run."""
        path, _, run = text.rpartition(":")
        if not path or Path(text).exists():
            return cls(SimulationFolder(Path(text)), None)
        folder = SimulationFolder(Path(path))
        known = list(dict.fromkeys(item.run.name for item in folder.iterations()))
        if run not in known:
            raise InputError(f"{path}: has no run {run!r}; {nearest(run, known)}")
        return cls(folder, run)

    def runs(self) -> dict[str, list[Recorded]]:
        """Usable iterations of each run, or of the named one."""
        found: dict[str, list[Recorded]] = {}
        for item in self.folder.iterations():
            if item.usable and self.run in (None, item.run.name):
                found.setdefault(item.run.name, []).append(item)
        return found


@dataclass(frozen=True)
class Ratio:
    """One metric of two runs: both means, and second over first with its interval."""

    first_run: str
    second_run: str
    metric: str
    unit: str
    first: float
    second: float
    ratio: Interval
    drawn: str


def compare(first: Side, second: Side) -> list[Ratio]:
    """Every metric of every pair of runs. Raises InputError where no runs match.

    Two named runs are compared whatever they are called; else runs of the same load and policy.
    """
    left, right = first.runs(), second.runs()
    if first.run and second.run:
        pairs = [(first.run, second.run)]
    elif first.run or second.run:
        name = first.run or second.run or ""
        pairs = [(name, name)] if name in left and name in right else []
    else:
        pairs = [(name, name) for name in left if name in right]
    if not all(name in left and other in right for name, other in pairs):
        raise InputError("a run to be compared has no usable iteration")
    if not pairs:
        raise InputError(
            f"nothing to compare: {first.folder.path} has {', '.join(left) or 'no run'};"
            f" {second.folder.path} has {', '.join(right) or 'no run'}"
        )
    found: list[Ratio] = []
    for name, other in pairs:
        found += _ratios((first, left[name]), (second, right[other]))
    return found


def _ratios(first: tuple[Side, list[Recorded]], second: tuple[Side, list[Recorded]]) -> list[Ratio]:
    left = {(item.seed, item.repetition): item for item in first[1]}
    right = {(item.seed, item.repetition): item for item in second[1]}
    common = sorted(left.keys() & right.keys())
    if len(common) > 1:
        pairs = [(left[key], right[key]) for key in common]
        return [found for name in METRICS if (found := _over_pairs(name, pairs))]
    key_left, key_right = (common * 2) if common else (min(left), min(right))
    one, other = left[key_left], right[key_right]
    parts = (
        _Windows(first[0].folder.read_outcome(one)),
        _Windows(second[0].folder.read_outcome(other)),
    )
    return [found for name in METRICS if (found := _over_windows(name, one, other, *parts))]


def _over_pairs(metric: str, pairs: list[tuple[Recorded, Recorded]]) -> Ratio | None:
    if any(metric not in item.metrics for pair in pairs for item in pair):
        return None
    values = np.array([[item.metrics[metric][0] for item in pair] for pair in pairs])

    def ratio(weights: NDArray[np.float64]) -> float:
        first, second = weights @ values
        return float(second / first) if first else float("nan")

    weights = statistics.independent_weights(len(pairs), SEED, RESAMPLES)
    interval = statistics.bootstrap(ratio, weights, len(pairs))
    first, second = values.mean(axis=0).tolist()
    names = pairs[0][0].run.name, pairs[0][1].run.name
    unit = pairs[0][0].metrics[metric][1]
    return Ratio(*names, metric, unit, first, second, interval, f"{len(pairs)} pairs of seeds")


class _Windows:
    """The windows of one run, joined into stretches, as sums that can be weighted."""

    def __init__(self, outcome: Outcome) -> None:
        windows = outcome.windows
        count = len(windows["span_s"])
        starts = np.arange(0, count, max(1, -(-count // STRETCHES)))

        def total(column: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.add.reduceat(np.nan_to_num(column), starts)

        ios = windows["ios"]
        self.span_s, self.ios = total(windows["span_s"]), total(ios)
        self.energy_j = total(windows["energy_j"])
        self.latency_us = total(ios * np.nan_to_num(windows["latency_us_mean"]))
        self.background = total(windows["background_rate"] * windows["span_s"])
        self.edge, matrix = WindowHistograms(*outcome.window_histograms).matrix()
        by_stretch = np.add.reduceat(matrix, starts, axis=0).astype(np.float64)
        # A column for each bucket, together in memory: a percentile looks at few of them.
        self.cumulative = np.asfortranarray(np.cumsum(by_stretch, axis=1))
        self.size = len(starts)

    def _percentile(self, share: float, weights: NDArray[np.float64]) -> float:
        """`analysis.histogram.percentile` of the weighted stretches, by bisection over buckets."""
        total = float(weights @ self.cumulative[:, -1]) if self.edge.size else 0.0
        if total == 0:
            return float("nan")
        rank = max(1.0, math.ceil(share * total))
        low, high = 0, self.edge.size - 1
        while low < high:
            middle = (low + high) // 2
            if weights @ self.cumulative[:, middle] < rank:
                low = middle + 1
            else:
                high = middle
        return float(self.edge[low])

    def value(self, metric: str, weights: NDArray[np.float64]) -> float:
        """A metric over weighted stretches; NaN where it has none."""
        span_s, ios = float(weights @ self.span_s), float(weights @ self.ios)
        energy_j = float(weights @ self.energy_j)
        if metric == "latency_us_p99":
            return self._percentile(0.99, weights)
        sums: dict[str, tuple[float, float]] = {
            "power_w_mean": (energy_j, span_s),
            "energy_j": (energy_j, 1.0),
            "iops_mean": (ios, span_s),
            "iops_per_watt": (ios, energy_j),
            "latency_us_mean": (float(weights @ self.latency_us), ios),
            "background_rate_mean": (float(weights @ self.background), span_s),
        }
        top, bottom = sums[metric]
        return top / bottom if bottom else float("nan")


def _over_windows(
    metric: str, one: Recorded, other: Recorded, left: _Windows, right: _Windows
) -> Ratio | None:
    if metric not in one.metrics or metric not in other.metrics:
        return None

    def ratio(weights: NDArray[np.float64]) -> float:
        first = left.value(metric, weights[: left.size])
        second = right.value(metric, weights[left.size :])
        return second / first if first else float("nan")

    interval = statistics.bootstrap(
        ratio, _block_weights(left.size, right.size), left.size + right.size
    )
    first, second = one.metrics[metric][0], other.metrics[metric][0]
    estimate = second / first if first else float("nan")
    interval = Interval(estimate, interval.low, interval.high, interval.confidence)
    drawn = "blocks of windows, one run each"
    names = one.run.name, other.run.name
    return Ratio(*names, metric, one.metrics[metric][1], first, second, interval, drawn)


def _block_weights(left: int, right: int) -> Iterator[NDArray[np.float64]]:
    """Weights for both sides; the same stretches where the runs are equally long (same load)."""
    first = statistics.moving_block_weights(left, SEED, RESAMPLES)
    second = statistics.moving_block_weights(right, SEED if left == right else SEED + 1, RESAMPLES)
    for pair in zip(first, second, strict=True):
        yield np.concatenate(pair)
