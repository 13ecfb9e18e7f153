"""Comparison of two results: ratios, metric by metric, with intervals where noise is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from wattio.analysis.statistics import Interval
from wattio.errors import InputError
from wattio.files.document import nearest
from wattio.results.folder import ResultFolder
from wattio.results.runs import Recorded
from wattio.results.summary import Estimate, last_attempts

NAMES = {
    "seconds": "time",
    "throughput_mib_s": "throughput",
    "iops": "I/Os per second",
    "iops_mean": "I/Os per second",
    "latency_us_mean": "mean latency",
    "latency_us_p99": "99th percentile of latency",
    "latency_us_p999": "p99.9 of latency",
    "latency_us_p9999": "p99.99 of latency",
    "power_w_mean": "mean power",
    "energy_j": "energy",
    "mib_per_joule": "MiB per joule",
    "iops_per_watt": "I/Os per joule",
    "edp_w1": "energy-delay product",
    "background_rate_mean": "background work",
}
"""Metrics in words."""

HIGHER_IS_BETTER = (
    *("throughput_mib_s", "iops", "iops_mean", "mib_per_joule", "iops_per_watt"),
    "background_rate_mean",
)

FEW = 5
"""Fewer repetitions than this give intervals that are too narrow, and are said to be few."""


@dataclass(frozen=True)
class Side:
    """A result folder, and the run in it if one is named."""

    folder: ResultFolder
    run: str | None

    @property
    def runs(self) -> dict[str, list[Recorded]]:
        """Usable iterations of each run, or of the named one."""
        found: dict[str, list[Recorded]] = {}
        for item in last_attempts(self.folder.iterations()):
            if item.usable and self.run in (None, item.run.name):
                found.setdefault(item.run.name, []).append(item)
        return found


def split(text: str) -> tuple[Path, str | None]:
    """The two parts of `FOLDER` or `FOLDER:RUN`, whose names may hold colons themselves."""
    parts = text.split(":")
    heads = [Path(head) for head in accumulate(parts, lambda left, right: f"{left}:{right}")]
    for count in range(len(parts), 0, -1):
        if heads[count - 1].is_dir():
            return heads[count - 1], ":".join(parts[count:]) or None
    return heads[0], ":".join(parts[1:]) or None


def side(folder: ResultFolder, run: str | None) -> Side:
    """One side of a comparison. Raises InputError for an unknown run."""
    known = list(dict.fromkeys(item.run.name for item in folder.iterations()))
    if run is not None and run not in known:
        raise InputError(f"{folder.path}: has no run {run!r}; {nearest(run, known)}")
    return Side(folder, run)


@dataclass(frozen=True)
class Ratio:
    """One metric of one phase on both sides, and second over first.

    `interval` is None if nothing is known of the noise; `drawn` tells what was drawn for it.
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
    drawn: str
    estimated: bool = False

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval excludes that nothing differs."""
        return self.interval is not None and not self.interval.low <= 1 <= self.interval.high


class Compares(Protocol):
    """What a kind of studies supplies: the ratios of a pair of runs."""

    def __call__(
        self, first: Side, left: list[Recorded], second: Side, right: list[Recorded]
    ) -> list[Ratio]:
        """Every metric of every phase that both runs have."""


def compare(first: Side, second: Side, ratios: Compares) -> list[Ratio]:
    """Every pair of runs. Raises InputError if none match.

    Two named runs are compared whatever they are called; else runs of the same name.
    """
    left, right = first.runs, second.runs
    if first.run and second.run:
        pairs = [(first.run, second.run)]
    else:
        names = [name for name in (first.run, second.run) if name] or list(left)
        pairs = [(name, name) for name in names if name in left and name in right]
    if not all(name in left and other in right for name, other in pairs):
        raise InputError("a run to be compared has no usable iteration")
    found = [
        ratio for name, other in pairs for ratio in ratios(first, left[name], second, right[other])
    ]
    if not found:
        raise InputError(f"nothing to compare: {_known(first, left)}; {_known(second, right)}")
    return found


def _known(of: Side, runs: Mapping[str, object]) -> str:
    return f"{of.folder.path} has {', '.join(runs) or 'no run'}"


def by_phase(found: Sequence[Ratio]) -> list[list[Ratio]]:
    """The ratios of each phase of each pair of runs."""
    groups: dict[tuple[str, str, str], list[Ratio]] = {}
    for ratio in found:
        groups.setdefault((ratio.first_run, ratio.second_run, ratio.phase), []).append(ratio)
    return list(groups.values())


def sentence(ratios: Sequence[Ratio]) -> str:
    """What differs beyond noise in one phase of a pair of runs, as a reader would say it."""
    least = min(part.n for ratio in ratios for part in (ratio.first, ratio.second))
    few = f" {least} repetitions are few: intervals over them are too narrow."
    return _sentence(ratios) + (few if 1 < least < FEW else "")


def _sentence(ratios: Sequence[Ratio]) -> str:
    if all(ratio.interval is None for ratio in ratios):
        return "One repetition on a side says nothing about noise: repeat to know what differs."
    told = [ratio for ratio in ratios if ratio.beyond_noise]
    if not told:
        return "Nothing differs beyond noise."
    parts = []
    for ratio in told:
        change = 100 * (ratio.ratio - 1)
        better = (change > 0) == (ratio.metric in HIGHER_IS_BETTER)
        word = NAMES[ratio.metric] + (" (estimated)" if ratio.estimated else "")
        judged = "better" if better else "worse"
        parts.append(f"{word} {abs(change):.1f} % {'higher' if change > 0 else 'lower'} ({judged})")
    return "Beyond noise: " + ", ".join(parts) + "."
