"""How two simulated runs are compared.

If both sides have several seeds or repetitions in common, whole iterations are tested in pairs. If
they have several each, but not in common, all of them are tested, unpaired. If there is one run on
a side, stretches of the latency windows of one run each are drawn (moving blocks), which says how
steady the ratio is along the run, but nothing about other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattio.analysis import statistics
from wattio.analysis.histogram import WindowHistograms
from wattio.analysis.statistics import Interval
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.results.compare import UNEQUAL_SPANS, Ratio, Side, corrected, of_means
from wattio.results.runs import WHOLE, Recorded
from wattio.results.states import PERCENTILES
from wattio.results.summary import EQUAL_WORK, Estimate, estimates
from wattio.simulator.simulation import Outcome

METRICS = (
    "power_w_mean",
    "energy_j",
    "iops_mean",
    "iops_per_watt",
    "latency_us_mean",
    *("latency_us_p99", "latency_us_p999", "latency_us_p9999"),
    "background_rate_mean",
)
"""What is compared, in this order."""

STRETCHES = 1200
"""Most stretches that the windows of a run are joined into before blocks of them are drawn."""

RESAMPLES = 1000
"""Draws for each interval."""

SEED = 1
"""Seed of every bootstrap: the same results always show the same interval."""


def ratios(first: Side, left: list[Recorded], second: Side, right: list[Recorded]) -> list[Ratio]:
    """Every metric that both runs have; of unequal simulated times, those that still say something.

    Half as long a run has half the energy, whatever its policy does.
    """
    found = _ratios(first, left, second, right)
    if _equally_long([*left, *right]):
        return corrected(found)
    found = [ratio for ratio in found if ratio.metric != "energy_j"]
    return corrected([replace(ratio, unequal=UNEQUAL_SPANS) for ratio in found])


def _equally_long(items: Sequence[Recorded]) -> bool:
    """Whether the same time was simulated in every iteration, as far as they say."""
    spans_s = [item.metrics["duration_s"][0] for item in items if "duration_s" in item.metrics]
    return not spans_s or max(spans_s) - min(spans_s) <= EQUAL_WORK * max(spans_s)


def _ratios(first: Side, left: list[Recorded], second: Side, right: list[Recorded]) -> list[Ratio]:
    ours = {(item.seed, item.repetition): item for item in left}
    theirs = {(item.seed, item.repetition): item for item in right}
    common = sorted(ours.keys() & theirs.keys())
    if len(common) > 1:
        pairs = [ours[key] for key in common], [theirs[key] for key in common]
        return _over_all(*pairs, f"{len(common)} pairs of seeds", paired=True)
    if min(len(ours), len(theirs)) > 1:
        return _over_all(left, right, f"{len(ours)} and {len(theirs)} seeds", paired=False)
    key_left, key_right = (common * 2) if common else (min(ours), min(theirs))
    one, other = ours[key_left], theirs[key_right]
    parts = _windows(first, one), _windows(second, other)
    found = []
    for name in METRICS:
        values = _estimates(name, [one], [other])
        if values is None:
            continue
        interval, p = _over_windows(name, *parts)
        ratio = values[1].mean / values[0].mean
        interval = Interval(ratio, interval.low, interval.high, interval.confidence)
        names = one.run.name, other.run.name, WHOLE, name
        test = "bootstrap of moving blocks of windows, one run each"
        found.append(Ratio(*names, values[0].unit, *values, ratio, interval, p, test))
    return found


def _over_all(
    left: list[Recorded], right: list[Recorded], over: str, *, paired: bool
) -> list[Ratio]:
    found = []
    for name in METRICS:
        values = _estimates(name, left, right)
        if values is not None:
            names = left[0].run.name, right[0].run.name, WHOLE, name
            found.append(of_means(names, *values, over, paired=paired))
    return found


def _estimates(
    metric: str, left: Sequence[Recorded], right: Sequence[Recorded]
) -> tuple[Estimate, Estimate] | None:
    """A metric of both sides; None if it is not everywhere, or there is nothing to divide by."""
    if not all(metric in item.metrics for item in [*left, *right]):
        return None
    first, second = (
        estimates([{metric: item.metrics[metric]} for item in items])[metric]
        for items in (left, right)
    )
    return (first, second) if first.mean else None


def _windows(side: Side, item: Recorded) -> _Windows:
    assert isinstance(side.folder, SimulationFolder)
    return _Windows(side.folder.read_outcome(item))


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
        self.edge, matrix = WindowHistograms(*outcome.window_histograms).matrix(starts)
        # A column for each bucket, together in memory: a percentile looks at few of them.
        self.cumulative = np.asfortranarray(np.cumsum(matrix, axis=1, out=matrix))
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
        if metric in PERCENTILES:
            return self._percentile(PERCENTILES[metric], weights)
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


def _over_windows(metric: str, left: _Windows, right: _Windows) -> tuple[Interval, float]:
    def ratio(weights: NDArray[np.float64]) -> float:
        first = left.value(metric, weights[: left.size])
        second = right.value(metric, weights[left.size :])
        return second / first if first else math.nan

    weights = _block_weights(left.size, right.size)
    return statistics.bootstrap(ratio, weights, left.size + right.size)


def _block_weights(left: int, right: int) -> Iterator[NDArray[np.float64]]:
    """Weights for both sides; the same stretches where the runs are equally long (same load)."""
    first = statistics.moving_block_weights(left, SEED, RESAMPLES)
    second = statistics.moving_block_weights(right, SEED if left == right else SEED + 1, RESAMPLES)
    for pair in zip(first, second, strict=True):
        yield np.concatenate(pair)
