"""Several campaigns side by side, each on a platform of its own: raw, by watt, by euro, by peak.

Runs are joined by workload, system, clients, settings and phase. Ratios are relative to
the first platform. Sources: Erxleben et al., sections III to V; the thesis, sections 6.3 and 6.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wattio.analysis import efficiency
from wattio.errors import InputError
from wattio.kinds.measurement import comparable, platform_doubts
from wattio.kinds.measurement.compare import METRICS, OF_EQUAL_WORK
from wattio.kinds.measurement.platform import Platform
from wattio.kinds.measurement.schema import IDLE
from wattio.results.compare import UNEQUAL_WORK, UNKNOWN_WORK, Ratio, corrected, of_means, sentence
from wattio.results.runs import Run
from wattio.results.summary import AMOUNTS, Estimate, Row, equal_work, estimates

PER_EURO = {
    "mib_s_per_eur": ("throughput_mib_s", "MiB/s/EUR"),
    "iops_per_eur": ("iops", "1/s/EUR"),
    "tb_per_eur": ("raw_capacity_tb", "TB/EUR"),
}
"""What is divided by a platform's price, and the unit that comes out."""

_BY_WATT = ("mib_per_joule", "iops_per_watt", "files_per_joule", "edp_w1")

SHOWN = (
    *(name for name in METRICS if name not in _BY_WATT),
    *("mib_per_joule", "mib_per_joule_net", "iops_per_watt", "iops_per_watt_net"),
    *("files_per_joule", "files_per_joule_net"),
    *("capacity_tb_per_watt", "capacity_tb_per_watt_net"),
    *PER_EURO,
    *("peak_share", "edp_w1", "edp_w1_net"),
)
"""What is set side by side, in this order: as measured, by watt, by euro, by peak, the product."""

_HEADLINES = (
    ("throughput_mib_s", "mib_per_joule", "mib_s_per_eur", "peak_share", "edp_w1"),
    ("iops", "iops_per_watt", "iops_per_eur", "peak_share", "edp_w1"),
    ("files_per_s", "files_per_joule", "edp_w1"),
    ("power_w_mean", "capacity_tb_per_watt", "tb_per_eur"),
)
"""What is said in words: of the bytes moved, or of operations, or of what is idle."""

_NET = "_net"


def headline(family: Sequence[Ratio]) -> str:
    """What differs beyond noise between two platforms in one phase, of the metrics that sum it up.

    P values are those of all metrics of the phase. Where only others differ, these are said.
    """
    names = next((some for some in _HEADLINES if any(one.metric == some[0] for one in family)), ())
    chosen = [one for one in family if one.metric in names]
    other = [one for one in family if one.beyond_noise]
    told = chosen if any(one.beyond_noise for one in chosen) or not other else other
    return sentence(told or family)


@dataclass(frozen=True)
class Value:
    """A metric of one platform."""

    estimate: Estimate
    estimated: bool


@dataclass(frozen=True)
class Line:
    """A metric side by side; None if a platform has none.

    `ratios` are over the first platform, one for each of the others.
    """

    metric: str
    unit: str
    values: tuple[Value | None, ...]
    ratios: tuple[Ratio | None, ...]

    @property
    def estimated(self) -> bool:
        """Whether it rests on an estimate on any platform."""
        return any(value.estimated for value in self.values if value is not None)

    @property
    def over_least(self) -> tuple[float | None, ...]:
        """Each mean over the least of all, as Erxleben et al. show energy-delay products."""
        means = [None if value is None else value.estimate.mean for value in self.values]
        known = [mean for mean in means if mean is not None]
        if len(known) < 2 or min(known) <= 0:
            return tuple(None for _ in means)
        shares = iter(efficiency.normalised_to_least(known))
        return tuple(None if mean is None else next(shares) for mean in means)


@dataclass(frozen=True)
class Joined:
    """One phase of one run on all platforms; the run is the first platform's."""

    of: Run
    phase: str
    lines: tuple[Line, ...]
    doubts: tuple[str, ...]

    @property
    def families(self) -> list[list[Ratio]]:
        """The ratios of each other platform over the first, tested together."""
        found: dict[str, list[Ratio]] = {}
        for line in self.lines:
            for ratio in line.ratios:
                if ratio is not None:
                    found.setdefault(ratio.second_run, []).append(ratio)
        return list(found.values())

    @property
    def run(self) -> str:
        """The run's name."""
        return self.of.name

    @property
    def title(self) -> str:
        """How it is called."""
        return f"{self.run}: {self.phase}" if self.phase else self.run

    def line(self, metric: str) -> Line | None:
        """The line of a metric; None if fewer than two platforms have it."""
        return next((line for line in self.lines if line.metric == metric), None)


@dataclass(frozen=True)
class Comparison:
    """Platforms, what was joined, what could not be and why, and what is to be known of all."""

    platforms: tuple[Platform, ...]
    joined: tuple[Joined, ...]
    unjoined: tuple[str, ...]
    doubts: tuple[str, ...]


def compare(platforms: Sequence[Platform], *, despite_options: bool = False) -> Comparison:
    """Join the campaigns. Raises InputError where nothing can be joined.

    Workloads of one name whose options differ in more than the amount are left out, unless
    `despite_options`.
    """
    refused, doubts = _asked(platforms, despite_options=despite_options)
    unjoined = list(refused.values())
    joined = []
    for (run, phase), first in platforms[0].rows.items():
        if first.run.subject in refused:
            continue
        found = [one.rows.get((run, phase)) for one in platforms]
        lacking = [
            one.name for one, row in zip(platforms, found, strict=True) if not row or not row.used
        ]
        if lacking:
            unjoined.append(_lack(run, phase, lacking, found))
            continue
        own = doubts.get(first.run.subject, ())
        joined.append(_join(platforms, [row for row in found if row], own))
    told_of = set(platforms[0].rows)
    for other in platforms[1:]:
        for (run, phase), row in other.rows.items():
            if (run, phase) not in told_of and row.run.subject not in refused:
                unjoined.append(f"{run}: {phase or 'all of it'}: {platforms[0].name} has none")
                told_of.add((run, phase))
    if not joined:
        told = "; ".join(unjoined[:5]) or "no platform has a run"
        raise InputError(f"nothing to join: {told}")
    return Comparison(
        tuple(platforms), tuple(joined), tuple(unjoined), platform_doubts.of_all(platforms)
    )


def _lack(run: str, phase: str, lacking: Sequence[str], found: Sequence[Row | None]) -> str:
    why = "has none" if None in found else "has no usable iteration"
    return f"{run}: {phase or 'all of it'}: {', '.join(lacking)} {why}"


def _asked(
    platforms: Sequence[Platform], *, despite_options: bool
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Why workloads are not joined, and the doubts of those that are, by name."""
    refused: dict[str, str] = {}
    doubts: dict[str, tuple[str, ...]] = {}
    first = platforms[0]
    for other in platforms[1:]:
        for name in first.asked.keys() & other.asked.keys():
            found = comparable.differences(first.asked[name], other.asked[name])
            between = f"{first.name} and {other.name} differ in"
            if found.work and not despite_options:
                refused[name] = (
                    f"{name}: {between} {', '.join(found.work)}: another workload of the same"
                    " name; --despite-options joins them nonetheless"
                )
                continue
            told = []
            if found.work:
                told.append(f"{between} {', '.join(found.work)}: joined as requested")
            if found.amounts:
                told.append(
                    f"{between} {', '.join(found.amounts)}: rates compare if runs are long enough;"
                    " time, energy and energy-delay product do not"
                )
            if found.place:
                told.append(f"{between} {', '.join(found.place)}")
            doubts[name] = (*doubts.get(name, ()), *told)
    return refused, doubts


def _join(platforms: Sequence[Platform], found: Sequence[Row], own: Sequence[str]) -> Joined:
    """One phase of one run, every metric that two or more have."""
    told = list(own)
    names = SHOWN
    if not equal_work(found):
        names = tuple(name for name in SHOWN if name not in OF_EQUAL_WORK)
        if found[0].run.subject != IDLE:
            said = any(row.mean(name) for row in found for name in AMOUNTS)
            told.append(UNEQUAL_WORK if said else UNKNOWN_WORK)
    lines = []
    for name in names:
        values = _values(platforms, found, name)
        known = [value for value in values if value is not None]
        if len(known) < 2 and not (len(known) == 1 and name in PER_EURO):
            continue
        lines.append(_line(platforms, found[0].phase, name, values))
    return Joined(
        found[0].run, found[0].phase, tuple(_corrected(lines, len(platforms))), tuple(told)
    )


def _line(
    platforms: Sequence[Platform], phase: str, name: str, values: Sequence[Value | None]
) -> Line:
    first = values[0]
    ratios: list[Ratio | None] = []
    for at, value in enumerate(values[1:], start=1):
        if first is None or value is None or first.estimate.mean <= 0:
            ratios.append(None)
            continue
        names = (platforms[0].name, platforms[at].name, phase, name)
        estimated = first.estimated or value.estimated
        ratios.append(
            of_means(names, first.estimate, value.estimate, "repetitions", estimated=estimated)
        )
    unit = next(value.estimate.unit for value in values if value is not None)
    return Line(name, unit, tuple(values), tuple(ratios))


def _corrected(lines: Sequence[Line], count: int) -> list[Line]:
    """P values corrected together over all metrics of each pair of platforms."""
    found = list(lines)
    for at in range(count - 1):
        having = [place for place, line in enumerate(found) if line.ratios[at] is not None]
        family = [ratio for line in found if (ratio := line.ratios[at]) is not None]
        for place, ratio in zip(having, corrected(family), strict=True):
            ratios = list(found[place].ratios)
            ratios[at] = ratio
            found[place] = replace(found[place], ratios=tuple(ratios))
    return found


def _values(
    platforms: Sequence[Platform], found: Sequence[Row], name: str
) -> tuple[Value | None, ...]:
    if name in PER_EURO:
        source, unit = PER_EURO[name]
        pairs = zip(platforms, found, strict=True)
        return tuple(_per_euro(one, row, source, unit) for one, row in pairs)
    if name.endswith(_NET):
        return _net(platforms, found, name)
    return tuple(_value(row, name) for row in found)


def _value(row: Row, name: str) -> Value | None:
    estimate = row.get(name)
    return None if estimate is None else Value(estimate, row.is_estimated(name))


def _per_euro(platform: Platform, row: Row, source: str, unit: str) -> Value | None:
    """A metric over the platform's price; None if that is not known."""
    value, price_eur = _value(row, source), platform.about.price_eur
    if value is None or price_eur is None:
        return None
    each = [{source: (one / price_eur, unit)} for one in value.estimate.values]
    return replace(value, estimate=estimates(each)[source])


def _net(
    platforms: Sequence[Platform], found: Sequence[Row], name: str
) -> tuple[Value | None, ...]:
    """Net figures, and beside them the gross one of a platform that has nothing to take off.

    Erxleben et al. compare so: a switch's power is taken off where it was metered, and the other
    cluster's meter had none. A platform that covers such a device, and takes nothing off, has no
    figure here.
    """
    taken = {device for one in platforms for device in one.subtracted}
    if not taken:
        return tuple(None for _ in platforms)
    values: list[Value | None] = []
    for one, row in zip(platforms, found, strict=True):
        if one.subtracted:
            values.append(_value(row, name))
        elif taken.isdisjoint(one.covered):
            values.append(_value(row, name.removesuffix(_NET)))
        else:
            values.append(None)
    return tuple(values)
