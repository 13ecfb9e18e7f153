"""Comparison of measured runs, metric by metric, as ratios with intervals and a plain sentence.

Repetitions on both sides are independent of each other, so each side is drawn by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattio.analysis.statistics import RESAMPLES, Interval
from wattio.errors import InputError
from wattio.files.document import nearest
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.results import summary
from wattio.results.summary import Estimate, Row

METRICS = (
    "seconds",
    "throughput_mib_s",
    "iops",
    "latency_us_p99",
    "power_w_mean",
    "energy_j",
    "mib_per_joule",
    "iops_per_watt",
    "edp_w1",
)
"""What is compared, in this order."""

HIGHER_IS_BETTER = ("throughput_mib_s", "iops", "mib_per_joule", "iops_per_watt")

_WORDS = {
    "seconds": "time",
    "throughput_mib_s": "throughput",
    "iops": "I/Os per second",
    "latency_us_p99": "99th percentile of latency",
    "power_w_mean": "mean power",
    "energy_j": "energy",
    "mib_per_joule": "MiB per joule",
    "iops_per_watt": "I/Os per joule",
    "edp_w1": "energy-delay product",
}


@dataclass(frozen=True)
class Side:
    """A result folder, and the run in it where one is named."""

    folder: MeasurementFolder
    run: str | None

    @classmethod
    def parse(cls, text: str) -> Side:
        """Read `FOLDER` or `FOLDER:WORKLOAD/LABEL`. Raises InputError for an unknown run."""
        if Path(text).exists():
            return cls(MeasurementFolder(Path(text)), None)
        path, _, run = text.partition(":")
        folder = MeasurementFolder(Path(path))
        known = list(dict.fromkeys(item.run.name for item in folder.iterations()))
        if run not in known:
            raise InputError(f"{path}: has no run {run!r}; {nearest(run, known)}")
        return cls(folder, run)

    def rows(self) -> list[Row]:
        """The phases of every run, or of the named one."""
        found = summary.rows(self.folder.iterations())
        return [row for row in found if self.run in (None, row.run.name)]


@dataclass(frozen=True)
class Ratio:
    """One metric of one phase on both sides, and second over first.

    `interval` is None where a side has one value only: nothing is known of the noise then.
    """

    first_run: str
    second_run: str
    phase: str
    metric: str
    unit: str
    first: Estimate
    second: Estimate
    ratio: float
    interval: Interval | None
    estimated: bool

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval excludes that nothing differs."""
        return self.interval is not None and not self.interval.low <= 1 <= self.interval.high


def compare(first: Side, second: Side) -> list[Ratio]:
    """Every metric of every phase that both sides have. Raises InputError where none matches.

    Two named runs are compared whatever they are called; else runs of the same name.
    """
    named = first.run is not None and second.run is not None
    right = {_key(row, named): row for row in second.rows()}
    pairs = [(row, right[_key(row, named)]) for row in first.rows() if _key(row, named) in right]
    found = [ratio for left, other in pairs for ratio in _ratios(left, other)]
    if not found:
        names = [
            ", ".join(sorted({row.run.name for row in side.rows()})) or "no run"
            for side in (first, second)
        ]
        raise InputError(
            f"nothing to compare: {first.folder.path} has {names[0]};"
            f" {second.folder.path} has {names[1]}"
        )
    return found


FEW = 5
"""Fewer repetitions than this give intervals that are too narrow, and are said to be few."""


def sentence(ratios: Sequence[Ratio]) -> str:
    """What differs beyond noise in one phase of a pair of runs, as a reader would say it."""
    text = _sentence(ratios)
    least = min(side.n for ratio in ratios for side in (ratio.first, ratio.second))
    if 1 < least < FEW:
        text += f" {least} repetitions are few: intervals over them are too narrow."
    return text


def _sentence(ratios: Sequence[Ratio]) -> str:
    unknown = all(ratio.interval is None for ratio in ratios)
    if unknown:
        return "One repetition on a side says nothing about noise: repeat to know what differs."
    told = [ratio for ratio in ratios if ratio.beyond_noise]
    if not told:
        return "Nothing differs beyond noise."
    parts = []
    for ratio in told:
        change = 100 * (ratio.ratio - 1)
        better = (change > 0) == (ratio.metric in HIGHER_IS_BETTER)
        word = _WORDS[ratio.metric] + (" (estimated)" if ratio.estimated else "")
        side = "better" if better else "worse"
        parts.append(f"{word} {abs(change):.1f} % {'higher' if change > 0 else 'lower'} ({side})")
    return "Beyond noise: " + ", ".join(parts) + "."


def _key(row: Row, named: bool) -> tuple[str, str]:
    return ("" if named else row.run.name, row.phase)


def _ratios(left: Row, right: Row) -> list[Ratio]:
    found = []
    for name in METRICS:
        first, second = left.get(name), right.get(name)
        if first is None or second is None or first.mean == 0:
            continue
        if name == "edp_w1" and not summary.equal_work([left, right]):
            continue  # Of unequal work, it says nothing.
        estimated = left.is_estimated(name) or right.is_estimated(name)
        names = (left.run.name, right.run.name, left.phase, name)
        ratio = second.mean / first.mean
        found.append(
            Ratio(*names, first.unit, first, second, ratio, _interval(first, second), estimated)
        )
    return found


def _interval(first: Estimate, second: Estimate) -> Interval | None:
    """Percentile bootstrap of the ratio of two means of independent samples."""
    if first.n < 2 or second.n < 2:
        return None
    generator = np.random.default_rng(summary.SEED)
    left, right = (
        np.asarray(side.values)[generator.integers(side.n, size=(RESAMPLES, side.n))].mean(axis=1)
        for side in (first, second)
    )
    usable = left != 0
    low, high = np.quantile(right[usable] / left[usable], [0.025, 0.975])
    return Interval(second.mean / first.mean, float(low), float(high), 0.95)
