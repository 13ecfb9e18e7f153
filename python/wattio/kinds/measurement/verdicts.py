"""Verdicts of a measured iteration: whether it may be averaged with others, and why not.

INVALID ones are kept and shown, and never averaged; WARN ones are usable and marked. The rules are
those of the EEHPC, MLPerf and Emerald methodologies where they say one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattio.analysis import power
from wattio.clock import Span
from wattio.files.plain import plain
from wattio.kinds.measurement.record import Record
from wattio.kinds.measurement.schema import MeterEntry, Rules
from wattio.meters.meter import Facts
from wattio.meters.samples import COLUMNS
from wattio.recording import Event, Samples
from wattio.results.runs import Verdict
from wattio.workloads.workload import Operation

WITNESS = "witness"
"""Label of the estimate that is recorded where the study has none, to see the load change."""

STEP_UNKNOWN_W = 1.0
"""Taken for the resolution of a meter that names none and has shown only one value."""

COARSE_SHARE = 0.01
"""The largest share of a phase's energy that one step of its counter may be."""

Hole = tuple[float, float]
"""When a meter was lost, or its counter began anew: its last sample before, its first after."""

_ENDS = ("lost", "refused", "ended")
"""Events after which a meter says nothing until it is back."""

Still = tuple[float, float, str]
"""A stretch over which a meter was frozen: its first and last sample, and how it shows."""


@dataclass(frozen=True)
class Watched:
    """A meter with what was recorded of it.

    `time_s` is the monotonic clock less the meter's lag, in seconds; `holes` are when it was lost.
    """

    entry: MeterEntry
    facts: Facts
    samples: Samples
    time_s: NDArray[np.float64]
    holes: tuple[Hole, ...] = ()

    @classmethod
    def of(
        cls, entry: MeterEntry, facts: Facts, samples: Samples, events: Iterable[Event] = ()
    ) -> Watched:
        """Put samples, and what happened to the meter, on the time of the power they tell of."""
        lag_s = facts.lag_s if entry.lag is None else entry.lag
        found = cls(entry, facts, samples, samples.monotonic_ns / 1e9 - lag_s)
        known_s = found.known_s
        holes: dict[Hole, None] = {}
        for event in events:
            if event.kind in _ENDS:
                at_s = event.at.monotonic_ns / 1e9 - lag_s
                after = int(np.searchsorted(known_s, at_s, side="right"))
                start_s = float(known_s[after - 1]) if after else -math.inf
                end_s = float(known_s[after]) if after < known_s.size else math.inf
                holes[start_s, end_s] = None
        holes |= dict.fromkeys(found.falls())
        return replace(found, holes=tuple(sorted(holes)))

    def falls(self) -> list[Hole]:
        """Where a count fell: the counter began anew, whoever recorded it."""
        counted = ~np.isnan(self.samples.energy_j)
        time_s, energy_j = self.time_s[counted], self.samples.energy_j[counted]
        at = np.flatnonzero(np.diff(energy_j) < 0) if self.facts.counts_energy else ()
        return [(float(time_s[place]), float(time_s[place + 1])) for place in at]

    @property
    def interval_s(self) -> float:
        """How often it was to be read."""
        return self.entry.period or self.facts.period_s

    @property
    def update_s(self) -> float:
        """How often it could have shown something new."""
        return max(self.interval_s, self.facts.period_s)

    def around(self, span: Span) -> Watched:
        """The samples within a span, and the one before and after it."""
        start_s, end_s = bounds(span)
        first = max(int(np.searchsorted(self.time_s, start_s, side="right")) - 1, 0)
        last = int(np.searchsorted(self.time_s, end_s, side="left")) + 1
        columns = (getattr(self.samples, name)[first:last] for name in COLUMNS)
        return replace(self, samples=Samples(*columns), time_s=self.time_s[first:last])

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which samples have a value: a row without power, or count, is no sample of either."""
        known = ~np.isnan(self.samples.power_w)
        if self.facts.counts_energy:
            known |= ~np.isnan(self.samples.energy_j)
        return known

    @property
    def known_s(self) -> NDArray[np.float64]:
        """When it had a value."""
        return self.time_s[self.known]

    def has_known(self, span: Span) -> bool:
        """Whether it had a value within a span."""
        start_s, end_s = bounds(span)
        return bool(((self.known_s >= start_s) & (self.known_s <= end_s)).any())

    def energy_j(self, span: Span) -> float | None:
        """What it says of the energy of a span: counted where it counts, else integrated.

        A counter that was lost meanwhile did not tell all of it: its mean powers are integrated.
        None if that would be a guess: the span holds no sample.
        """
        ends_s = bounds(span)
        if self.facts.counts_energy and not self.lost_s(span):
            counted_j = power.energy_counted(self.time_s, self.samples.energy_j, *ends_s)
            if counted_j is not None:
                return counted_j
        if not self.has_known(span):
            return None
        return power.energy_between(self.time_s, self.samples.power_w, *ends_s)

    def lost_s(self, span: Span) -> list[float]:
        """How long it was lost within a span, each time."""
        begin_s, finish_s = bounds(span)
        return [
            min(end_s, finish_s) - max(start_s, begin_s)
            for start_s, end_s in self.holes
            if start_s < finish_s and end_s > begin_s
        ]


def of_record(record: Record, operations: Iterable[Operation], rules: Rules) -> list[Verdict]:
    """What an iteration says against itself, whatever its meters say."""
    found: list[Verdict] = []
    if record.failure is not None:
        found.append(Verdict("INVALID", f"FAILED: {record.failure}"))
    for phase in record.phases:
        start, end = phase.span.start, phase.span.end
        jump_s = (end.utc_ns - start.utc_ns) / 1e9 - phase.span.seconds
        if abs(jump_s) > rules.clock_jump:
            text = f"CLOCK: {phase.span.name}: the wall clock jumped by {plain(jump_s)} s"
            found.append(Verdict("INVALID", text))
    for name, drift in record.hosts.items():
        off_s, drifted_s = drift.off_s, drift.drifted_s
        if off_s > rules.clock_offset:
            text = f"CLOCKS: {name}: its clock differs from this machine's by {plain(off_s)} s"
            found.append(Verdict("INVALID", f"{text}; synchronize both by NTP"))
        if drifted_s > rules.clock_offset:
            text = f"CLOCKS: {name}: its clock drifted from ours by {plain(drifted_s)} s"
            found.append(Verdict("INVALID", text))
    for name, by_step in {"this machine": record.others, **record.others_at}.items():
        for step, others in by_step.items():
            if others.share > rules.others_share_max:
                text = f"BUSY: {step}: other processes took {plain(others.core_s)} core-seconds,"
                text = f"{text} {plain(100 * others.share, 2)} % of {name}'s {others.cores} cores"
                found.append(Verdict("WARN", text))
    found += [Verdict("WARN", f"DOUBT: {text}") for text in record.doubts]
    found += [
        Verdict("WARN", f"DOUBT: {operation.phase}: {operation.operation}: {text}")
        for operation in operations
        for text in operation.doubts
    ]
    return found


def of_meter(span: Span, meter: Watched, stills: Iterable[Still], rules: Rules) -> list[Verdict]:
    """What a meter's samples say against a phase; `stills` is where it was frozen."""
    near = meter.around(span)
    return [
        *_of_phase(span, near, rules),
        *_lost(span, meter, rules),
        *_frozen(span, meter, stills),
        *_coarse(span, near),
    ]


def is_valid(verdicts: Iterable[Verdict]) -> bool:
    """Whether none of them is INVALID."""
    return all(verdict.verdict != "INVALID" for verdict in verdicts)


def _of_phase(span: Span, meter: Watched, rules: Rules) -> Iterator[Verdict]:
    """What is wrong with one meter's samples within one phase."""
    start_s, end_s = bounds(span)
    time_s, label, interval_s = meter.known_s, meter.entry.shown, meter.interval_s
    inside = (time_s >= start_s) & (time_s <= end_s)
    count = int(np.count_nonzero(inside))
    where = f"{span.name}: {label}"
    gap_s = power.longest_gap(time_s, start_s, end_s)
    if time_s.size == 0 or (count == 0 and gap_s > rules.gap_intervals * interval_s):
        yield Verdict("INVALID", f"NO_SAMPLES: {where} has no sample")
        return
    if gap_s > rules.gap_intervals * interval_s:
        text = f"GAP: {where} is silent for {plain(gap_s)} s, but due every {plain(interval_s)} s"
        yield Verdict("INVALID", text)
    missing = power.missing_share(time_s, start_s, end_s, interval_s)
    # One sample is what the ends of a short phase may cost; it is no share of anything.
    if missing * span.seconds / interval_s > 1.5 and missing > rules.missing_share_max:
        text = f"MISSING: {where} lacks {100 * missing:.1f} % of its samples"
        yield Verdict("INVALID", text)
    if count == 0 and meter.energy_j(span) is None:
        text = f"NO_ENERGY: {where} has no sample within {plain(span.seconds)} s"
        yield Verdict("WARN", f"{text}; its energy would be a guess and is left out")
    jump_s = power.clock_jump(meter.samples.utc_ns, meter.samples.monotonic_ns)
    if jump_s > rules.clock_jump:
        yield Verdict("INVALID", f"CLOCK: {where}: the wall clock jumped by {plain(jump_s)} s")
    if count < rules.samples_min or count < int(span.seconds):
        text = f"LOW_N: {where} has {count} samples in {plain(span.seconds)} s"
        yield Verdict("WARN", f"{text}; needed: {rules.samples_min}, and one a second")


def _lost(span: Span, meter: Watched, rules: Rules) -> Iterator[Verdict]:
    """A meter that was lost and came back: what a counter counted meanwhile is not known.

    Where power is sampled, the gap and what is missing are judged by themselves.
    """
    parts_s = meter.lost_s(span)
    if not parts_s:
        return
    times = "once" if len(parts_s) == 1 else f"{len(parts_s)} times"
    share = sum(parts_s) / span.seconds if span.seconds > 0 else 1.0
    text = f"LOST: {span.name}: {meter.entry.shown} was lost {times}, for {plain(sum(parts_s))} s"
    if not meter.facts.counts_energy:
        yield Verdict("WARN", text)
        return
    share_told = plain(100 * share, 2)
    text = f"{text}; what it counted meanwhile, {share_told} % of the phase, is not known"
    yield Verdict("INVALID" if share > rules.missing_share_max else "WARN", text)


def _coarse(span: Span, meter: Watched) -> Iterator[Verdict]:
    """A counter whose step is no small share of what it counted in a phase."""
    if not meter.facts.counts_energy or meter.facts.resolution_w is None:
        return
    step_j = meter.facts.resolution_w * meter.facts.period_s
    counted_j = power.energy_counted(meter.time_s, meter.samples.energy_j, *bounds(span))
    if counted_j is not None and step_j > COARSE_SHARE * counted_j:
        text = f"{meter.entry.shown} counts in steps of {plain(step_j)} J, but the phase has"
        yield Verdict("WARN", f"COARSE: {span.name}: {text} {plain(counted_j)} J")


def standstills(meter: Watched, rules: Rules, witness: Watched | None) -> Iterator[Still]:
    """Stretches over which a meter was frozen.

    Its counter or own time stamp stood still for longer than two of its periods; or it showed one
    value for `frozen_periods` of them while the load changed by more than its resolution.
    """
    samples, update_s = meter.samples, meter.update_s
    if not np.isnan(samples.mark).all():
        least_s = rules.gap_intervals * update_s
        what = "its counter or own clock stood still"
        for start_s, end_s in power.standstills(meter.time_s, samples.mark, least_s):
            yield start_s, end_s, what
        return
    least_s = rules.frozen_periods * update_s
    for start_s, end_s in power.standstills(meter.time_s, samples.power_w, least_s):
        changed_w = _change_w(witness, start_s, end_s)
        if changed_w is not None and changed_w > _resolution_w(meter):
            what = f"it showed one value while the load changed by about {plain(changed_w, 2)} W"
            yield start_s, end_s, what


def _frozen(span: Span, meter: Watched, stills: Iterable[Still]) -> Iterator[Verdict]:
    """A phase is touched from one period after the last true change on."""
    begin_s, finish_s = bounds(span)
    for start_s, end_s, what in stills:
        if min(finish_s, end_s) > max(begin_s, start_s + meter.update_s):
            still = f"{what} for {plain(end_s - start_s)} s"
            text = f"FROZEN: {span.name}: {meter.entry.shown}: {still}"
            yield Verdict("INVALID", text)


def _change_w(witness: Watched | None, start_s: float, end_s: float) -> float | None:
    """By how much the estimate changed within a stretch; None if there is none."""
    if witness is None:
        return None
    inside = (witness.time_s >= start_s) & (witness.time_s <= end_s)
    values_w = witness.samples.power_w[inside]
    values_w = values_w[~np.isnan(values_w)]
    return float(np.ptp(values_w)) if values_w.size > 1 else None


def _resolution_w(meter: Watched) -> float:
    """The meter's smallest step: as it says, or else the smallest that it has shown."""
    if meter.facts.resolution_w is not None:
        return meter.facts.resolution_w
    steps_w = np.abs(np.diff(meter.samples.power_w))
    steps_w = steps_w[steps_w > 0]
    return float(steps_w.min()) if steps_w.size else STEP_UNKNOWN_W


def bounds(span: Span) -> tuple[float, float]:
    """Start and end of a span on the monotonic clock, in seconds."""
    return span.start.monotonic_ns / 1e9, span.end.monotonic_ns / 1e9
