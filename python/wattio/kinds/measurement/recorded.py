"""Recorded power by itself: the energy of phases, by channel and in total, with verdicts.

Energy, coverage and verdicts are those of studies (`metrics`, `verdicts`): what a study would say
of the same samples and phases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from wattio.analysis import power
from wattio.clock import Instant, Span
from wattio.errors import InputError
from wattio.kinds.measurement import metrics, verdicts
from wattio.kinds.measurement.phase_file import Phase
from wattio.kinds.measurement.schema import MeterEntry, Rules
from wattio.kinds.measurement.verdicts import Watched
from wattio.meters.channels import Channel
from wattio.results.runs import Verdict

Ends = Literal["interpolated", "samples"]
"""What a phase's ends are: its own, with power between samples there; or its outermost samples."""

WHOLE = "whole"


@dataclass(frozen=True)
class Amount:
    """Energy and power of a phase by a channel, or by all of them; None is what is not known.

    `power_w_samples_mean` is the mean of the samples themselves, as MLPerf takes it; `coverage` the
    share of the samples due in the whole phase that are there, where any was due.
    """

    energy_j: float | None
    power_w_mean: float | None
    power_w_samples_mean: float | None
    power_w_min: float | None
    power_w_max: float | None
    samples: int
    coverage: float | None


@dataclass(frozen=True)
class Evaluated:
    """What was recorded of a phase."""

    span: Span
    channels: Mapping[str, Amount]
    total: Amount
    verdicts: tuple[Verdict, ...]

    @property
    def verdict(self) -> str:
        """The worst of its verdicts."""
        order = ("INVALID", "WARN", "VALID")
        return min((verdict.verdict for verdict in self.verdicts), key=order.index)


def phases_within(channels: Mapping[str, Channel]) -> list[Phase]:
    """The stretches that the recording program gave a name, or the whole time of all channels."""
    first = next(iter(channels.values()))
    found: dict[str, Phase] = {}
    for name, start_ns, end_ns in first.marks:
        taken = sum(other == name or other.startswith(f"{name} ") for other in found)
        known = f"{name} {taken + 1}" if name in found else name
        found[known] = Phase(known, start_ns, end_ns, first.absolute)
    if found:
        return list(found.values())
    _refuse_clocks(channels, [])
    starts = [int(channel.samples.utc_ns[0]) for channel in channels.values()]
    ends = [int(channel.samples.utc_ns[-1]) for channel in channels.values()]
    if max(starts) >= min(ends):
        raise InputError("the channels have no time in common; give the phases with --phases")
    return [Phase(WHOLE, max(starts), min(ends), first.absolute)]


def sum_of_others(channels: Mapping[str, Channel]) -> str | None:
    """The channel that is the sum of all others of the same times, which a total counts twice.

    Such is a column of a file that its program added up: to within 1 % in nine of ten samples.
    """
    powers = {label: one.samples.power_w for label, one in channels.items()}
    times = [one.samples.monotonic_ns for one in channels.values()]
    if len(powers) < 3 or not all(np.array_equal(times[0], other) for other in times[1:]):
        return None
    # A channel that is the sum of the others is half of all of them.
    halves = sum(powers.values(), np.zeros(len(times[0]))) / 2
    for label, power_w in powers.items():
        same = (power_w > 0) & (np.abs(power_w - halves) <= 0.01 * power_w)
        if np.mean(same) >= 0.9:
            return label
    return None


def _refuse_clocks(channels: Mapping[str, Channel], phases: Sequence[Phase]) -> None:
    kinds = {channel.absolute for channel in channels.values()}
    if len(kinds) > 1 or any(phase.absolute not in kinds for phase in phases):
        raise InputError(
            "some times count from 1970, others from an arbitrary start; give it with"
            " ?start=2026-01-31T12:00:00Z behind the file's name"
        )


def evaluate(
    channels: Mapping[str, Channel],
    phases: Sequence[Phase],
    ends: Ends = "interpolated",
    rules: Rules | None = None,
) -> list[Evaluated]:
    """Evaluate phases. Raises InputError where phases and samples are not on one clock."""
    _refuse_clocks(channels, phases)
    # Seconds since 1970 would leave a float a quarter of a microsecond.
    base_ns = min(phase.start_ns for phase in phases)
    watched = {label: _watched(label, one, base_ns) for label, one in channels.items()}
    spans = [_span(phase.name, phase.start_ns, phase.end_ns, base_ns) for phase in phases]
    return [_evaluated(span, watched, ends, rules or Rules()) for span in spans]


def _watched(label: str, channel: Channel, base_ns: int) -> Watched:
    # Channels have names of their own, that no study takes for a label.
    entry = MeterEntry.model_construct(name="csv:", label=label, covers=[label])
    samples = replace(channel.samples, monotonic_ns=channel.samples.utc_ns - base_ns)
    return Watched.of(entry, channel.facts, samples)


def _evaluated(span: Span, watched: Mapping[str, Watched], ends: Ends, rules: Rules) -> Evaluated:
    # What is missing is judged by the phase that was asked for: its outermost samples hide it.
    asked = span
    if ends == "samples":
        span = _between_samples(span, list(watched.values()))
    own = {label: meter.around(span) for label, meter in watched.items()}
    covered = {label: _coverage(asked, meter) for label, meter in watched.items()}
    amounts = {label: _amount(span, meter, covered[label]) for label, meter in own.items()}
    found: list[Verdict] = []
    for label, meter in watched.items():
        told = verdicts.of_meter(asked, meter, (), rules)
        # Here nothing but the energy is asked for.
        lacking = [v for v in told if v.reason.startswith("NO_ENERGY")]
        found += [Verdict("INVALID", v.reason) if v in lacking else v for v in told]
        if amounts[label].energy_j is None and verdicts.is_valid(found):
            found.append(Verdict("INVALID", f"NO_ENERGY: {span.name}: {label} reports none"))
    total = _total(span, list(own.values()), list(amounts.values()))
    return Evaluated(span, amounts, total, tuple(found) or (Verdict("VALID", ""),))


def _span(name: str, start_ns: int, end_ns: int, base_ns: int) -> Span:
    start, end = (Instant(at_ns, at_ns - base_ns) for at_ns in (start_ns, end_ns))
    return Span(name, start, end)


def _between_samples(span: Span, watched: Sequence[Watched]) -> Span:
    """From the first sample within the span to the last; of all channels where there are several.

    As the methodology of the EEHPC working group takes a measurement from its first sample to its
    last one.
    """
    starts, ends = [], []
    for meter in watched:
        times_ns = meter.samples.utc_ns[meter.known]
        inside = (times_ns >= span.start.utc_ns) & (times_ns <= span.end.utc_ns)
        if not inside.any():
            return span
        starts.append(int(times_ns[inside][0]))
        ends.append(int(times_ns[inside][-1]))
    if max(starts) >= min(ends):
        return span
    base_ns = span.start.utc_ns - span.start.monotonic_ns
    return _span(span.name, max(starts), min(ends), base_ns)


def _coverage(span: Span, meter: Watched) -> float | None:
    missing = power.missing_share(meter.known_s, *verdicts.bounds(span), meter.interval_s)
    return 1.0 - missing if span.seconds >= meter.interval_s else None


def _amount(span: Span, meter: Watched, coverage: float | None) -> Amount:
    energy_j = meter.energy_j(span)
    power_w = metrics.total_power_w(span, [meter])[1]
    start_s, end_s = verdicts.bounds(span)
    known_s = meter.known_s
    count = int(np.count_nonzero((known_s >= start_s) & (known_s <= end_s)))
    return _made(span, energy_j, power_w, count, coverage)


def _total(span: Span, watched: Sequence[Watched], amounts: Sequence[Amount]) -> Amount:
    energies = [amount.energy_j for amount in amounts]
    known = [energy_j for energy_j in energies if energy_j is not None]
    energy_j = sum(known) if len(known) == len(energies) else None
    power_w = metrics.total_power_w(span, watched)[1]
    count = min(amount.samples for amount in amounts)
    covered = [amount.coverage for amount in amounts if amount.coverage is not None]
    return _made(span, energy_j, power_w, count, min(covered, default=None))


def _made(
    span: Span, energy_j: float | None, power_w: metrics.Series, count: int, coverage: float | None
) -> Amount:
    spread = power.distribution(power_w)
    return Amount(
        energy_j=energy_j,
        power_w_mean=energy_j / span.seconds if energy_j is not None and span.seconds else None,
        power_w_samples_mean=None if spread is None else float(np.nanmean(power_w)),
        power_w_min=None if spread is None else spread.minimum_w,
        power_w_max=None if spread is None else spread.maximum_w,
        samples=count,
        coverage=coverage,
    )
