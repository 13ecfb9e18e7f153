"""Comparison of two results: ratios, metric by metric, and what of them is beyond noise.

Every metric of one phase of a pair of runs is tested against a ratio of 1. These tests are one
family: their p values are corrected together (Holm), so that a phase in which nothing differs is
said to differ in at most one of twenty comparisons, however many metrics it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from wattio.analysis.ranged import RangedTest, compared
from wattio.analysis.statistics import Interval, RatioTest, holm
from wattio.errors import InputError
from wattio.files.document import nearest
from wattio.files.plain import plain
from wattio.results.folder import ResultFolder
from wattio.results.runs import Recorded
from wattio.results.summary import Estimate, last_attempts

NAMES = {
    "seconds": "time",
    "throughput_mib_s": "throughput",
    "iops": "I/Os per second",
    "iops_mean": "I/Os per second",
    "files_per_s": "files per second",
    "files_per_joule": "files per joule",
    "latency_us_mean": "mean latency",
    "latency_us_p99": "99th percentile of latency",
    "latency_us_p999": "p99.9 of latency",
    "latency_us_p9999": "p99.99 of latency",
    "power_w_mean": "mean power",
    "energy_j": "energy",
    "mib_per_joule": "MiB per joule",
    "iops_per_watt": "I/Os per joule",
    "edp_w1": "energy-delay product",
    "mib_per_joule_net": "MiB per joule, net",
    "iops_per_watt_net": "I/Os per joule, net",
    "files_per_joule_net": "files per joule, net",
    "edp_w1_net": "energy-delay product, net",
    "capacity_tb_per_watt": "capacity per watt",
    "capacity_tb_per_watt_net": "capacity per watt, net",
    "mib_s_per_eur": "throughput per euro",
    "iops_per_eur": "I/Os per second and euro",
    "tb_per_eur": "capacity per euro",
    "peak_share": "share of the peak",
    "background_rate_mean": "background work",
}
"""Metrics in words."""

HIGHER_IS_BETTER = (
    *("throughput_mib_s", "iops", "iops_mean", "mib_per_joule", "iops_per_watt"),
    *("files_per_s", "files_per_joule", "files_per_joule_net"),
    "background_rate_mean",
    *("mib_per_joule_net", "iops_per_watt_net", "peak_share"),
    *("capacity_tb_per_watt", "capacity_tb_per_watt_net"),
    *("mib_s_per_eur", "iops_per_eur", "tb_per_eur"),
)

LEVEL = 0.05
"""A difference is beyond noise where its corrected p value is below this."""

POWER = 0.8
"""In which share of comparisons a difference would be seen that is said to be seen."""

SLIGHT_PERCENT = 0.1
"""A smaller difference is told as small, however certain it is: hardly anything hangs on it."""

UNEQUAL_WORK = "unequal work: time, energy and energy-delay product are left out"
UNKNOWN_WORK = (
    "nothing tells how much work was done: time, energy and energy-delay product are left out"
)
UNEQUAL_SPANS = "unequal simulated times: energy is left out"

_TOLD_MAX = 10
"""A difference of this many times that would not be seen is not told to the per cent."""


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

    `interval` and `p_alone` are of this metric alone, `p` is corrected for all of its phase; they
    are None if nothing is known of the noise. A difference of `detectable_share` (0.05 is 5 %)
    would have been seen; None if that is not known. `test` names the test, `tests` says how many
    metrics p is corrected for. `unequal` says what is left out because one side did more in its
    phase, if it did: UNEQUAL_WORK or UNEQUAL_SPANS. `sample` says what each value is of.
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
    p_alone: float | None
    test: str
    tested: RatioTest | RangedTest | None = None
    estimated: bool = False
    p: float | None = None
    tests: int = 0
    unequal: str = ""
    sample: str = "run"

    @cached_property
    def detectable_share(self) -> float | None:
        """How large a difference would have been seen; by the strictest of Holm's levels.

        Not known of an estimate, where it is not a matter of noise alone, nor of values that are
        all the same.
        """
        if not isinstance(self.tested, RatioTest) or not self.tests:
            return None
        return self.tested.seen_from(LEVEL / self.tests, POWER) or None

    @property
    def beyond_noise(self) -> bool:
        """Whether it differs, at LEVEL, with regard to the other metrics."""
        return self.p is not None and self.p < LEVEL

    @property
    def is_slight(self) -> bool:
        """Whether its difference is small, as it is told: 0.1 % is not said to be below that."""
        return float(_size(abs(100 * (self.ratio - 1)))) < SLIGHT_PERCENT

    @property
    def untold(self) -> str | None:
        """Why the estimate cannot tell the sides apart, in words; None if it is not for that."""
        tested = self.tested
        if not isinstance(tested, RangedTest) or self.beyond_noise:
            return None
        if not tested.is_the_models(LEVEL, max(self.tests, 1)):
            return None
        return tested.why("the first", "the second", NAMES[self.metric])


def of_means(
    names: tuple[str, str, str, str],
    first: Estimate,
    second: Estimate,
    over: str,
    *,
    paired: bool = False,
    estimated: bool = False,
) -> Ratio:
    """A metric of both sides, tested over what `over` names; `names` are runs, phase, metric.

    Where it rests on a power model, with all that its coefficients may be (`analysis.ranged`).
    """
    tested = compared(first, second, paired=paired)
    interval, p = (None, None) if tested is None else (tested.interval(), tested.p)
    kind = "paired" if paired else "Welch's"
    test = f"{kind} t test of the logarithm of the ratio of means, over {over}"
    ratio = second.mean / first.mean
    values = first.unit, first, second, ratio
    return Ratio(*names, *values, interval, p, test, tested, estimated)


def corrected(family: Sequence[Ratio]) -> list[Ratio]:
    """The ratios of one phase of a pair of runs with their p values corrected together."""
    alone = [one.p_alone for one in family if one.p_alone is not None]
    p_values = iter(holm(alone))
    return [
        one if one.p_alone is None else replace(one, p=next(p_values), tests=len(alone))
        for one in family
    ]


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
    """What differs beyond noise in one phase of a pair of runs, as a reader would say it.

    Of what is within noise, how large a difference would have been seen.
    """
    if all(ratio.p is None for ratio in ratios):
        if ratios[0].sample == "run":
            text = "One repetition on a side says nothing about noise: repeat to know what differs."
        else:
            text = f"One {ratios[0].sample} on a side says nothing about noise."
        return text + _untold(ratios) + _unequal(ratios)
    beyond = [ratio for ratio in ratios if ratio.beyond_noise]
    slight = [ratio for ratio in beyond if ratio.is_slight]
    if parts := [_change(ratio) for ratio in beyond if ratio not in slight]:
        told = f"Beyond noise: {', '.join(parts)}."
    else:
        told = "" if slight else "Nothing differs beyond noise."
    if parts := [_change(ratio) for ratio in slight]:
        also = " Also beyond" if told else "Beyond"
        told += f"{also} noise, but by less than {SLIGHT_PERCENT:g} %: {', '.join(parts)}."
    told += _untold(ratios) + _detectable([one for one in ratios if not one.beyond_noise])
    return told + _unequal(ratios)


def _change(ratio: Ratio) -> str:
    """By how much a metric differs, and whether that is for the better where it matters."""
    change = 100 * (ratio.ratio - 1)
    told = f"{_word(ratio)} {_size(abs(change))} % {'higher' if change > 0 else 'lower'}"
    if ratio.is_slight:
        return told
    better = (change > 0) == (ratio.metric in HIGHER_IS_BETTER)
    return f"{told} ({'better' if better else 'worse'})"


def _unequal(ratios: Sequence[Ratio]) -> str:
    told = next((ratio.unequal for ratio in ratios if ratio.unequal), "")
    return f" {told[0].upper()}{told[1:]}." if told else ""


def _size(percent: float) -> str:
    """A difference to a tenth of a per cent; a smaller one to its first digit, never 0.0."""
    return f"{percent:.1f}" if percent >= SLIGHT_PERCENT else f"{percent:.1g}"


def _untold(ratios: Sequence[Ratio]) -> str:
    """What the estimate cannot tell apart: which metrics, and why, of the first of them."""
    found = [(ratio, why) for ratio in ratios if (why := ratio.untold) is not None]
    if not found:
        return ""
    names = ", ".join(NAMES[ratio.metric] for ratio, _ in found)
    return f" The estimate cannot tell the two apart by {names}: {found[0][1]}."


def _detectable(within: Sequence[Ratio]) -> str:
    """From what size on differences would have been seen among metrics within noise."""
    sizes = sorted(
        ((size, _word(ratio)) for ratio in within if (size := ratio.detectable_share)),
        key=lambda pair: pair[0],
    )
    if not sizes:
        return ""
    counts = sorted({part.n for ratio in within for part in (ratio.first, ratio.second)})
    runs = " or ".join(map(str, counts)) + f" {within[0].sample}s"
    told = [f"{share(size)} ({word})" for size, word in dict.fromkeys((sizes[0], sizes[-1]))]
    if len(told) > 1 and share(sizes[0][0]) == share(sizes[-1][0]):
        told = [share(sizes[0][0])]
    text = f" With {runs} each, a difference of {' to '.join(told)} would have been seen"
    return f"{text} in {100 * POWER:.0f} % of cases."


def share(size: float) -> str:
    """A difference that would be seen, in words."""
    return f"{plain(100 * size, 2)} %" if size < _TOLD_MAX else f"{_TOLD_MAX} times or more"


def _word(ratio: Ratio) -> str:
    return NAMES[ratio.metric] + (" (estimated)" if ratio.estimated else "")


def method(ratios: Sequence[Ratio]) -> str:
    """The test of one phase of a pair of runs: its name, its level, and its correction."""
    tests = max(ratio.tests for ratio in ratios)
    if not tests:
        single = "repetition" if ratios[0].sample == "run" else ratios[0].sample
        return f"no test: one {single} on a side"
    word = "metric" if tests == 1 else "metrics"
    text = f"{ratios[0].test}; p corrected for {tests} {word} by Holm's method, beyond noise"
    return f"{text} below {LEVEL:g}; 95 % intervals are of each metric alone"


def several(groups: int) -> str:
    """What to expect of so many comparisons, each held to LEVEL by itself; nothing of one."""
    if groups < 2:
        return ""
    text = f"Each of these {groups} comparisons is held to {LEVEL:g} by itself: if nothing differed"
    return f"{text}, up to {plain(LEVEL * groups, 2)} of them would still be said to."


def ends(interval: Interval | None, absent: str) -> str:
    """An interval of a ratio, in words; a text where there is none."""
    if interval is None:
        return absent
    low, high = (f"{end:.4f}" if end < 1e3 else plain(end) for end in (interval.low, interval.high))
    return f"{low} to {high}"


def p_value(value: float | None, absent: str) -> str:
    """A p value in words."""
    if value is None:
        return absent
    return f"{value:.2g}" if value >= 1e-4 else "< 0.0001"
