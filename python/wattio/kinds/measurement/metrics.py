"""Metrics of a measured iteration, phase by phase, from its raw files and power samples.

A metric is called after its quantity; a part of a phase `<operation>.<quantity>`; a single meter's
energy `<label>.energy_j`. What rests on an estimate has `estimated_` before
the quantity. `net` beside a quantity means: less the power of the devices that the study subtracts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from wattio.analysis import efficiency, modelled, power
from wattio.analysis.cores import Spent
from wattio.analysis.peak import Peak
from wattio.clock import Span
from wattio.kinds.measurement import core_time, target_status
from wattio.kinds.measurement.record import Account
from wattio.kinds.measurement.schema import MeasurementStudy
from wattio.kinds.measurement.system_status import Answer
from wattio.kinds.measurement.verdicts import Watched, bounds
from wattio.results.runs import Metrics
from wattio.workloads.workload import Operation

Series = NDArray[np.float64]

_MIB = 1 << 20


def of_phase(
    span: Span,
    operations: Sequence[Operation],
    watched: Sequence[Watched],
    study: MeasurementStudy,
    peak: Peak | None,
    account: Account | None = None,
    told: Sequence[Answer] = (),
    deletes_s: float | None = None,
    spent: Spent | None = None,
) -> Metrics:
    """Every metric of one phase. What cannot be known is absent.

    `deletes_s` is what the end of the span belongs to deletes of the servers. Rates are of the
    time before; what they are divided by is energy of all of it. `spent` is what the cores of this
    machine did, which an estimate's energy is made of.
    """
    found: Metrics = {"seconds": (span.seconds, "s")}
    if deletes_s is not None:
        found["deletes_s"] = (deletes_s, "s")
    found |= of_operations(operations)
    if len(operations) > 1:
        for name, own in _by_name(operations).items():
            found |= {f"{name}.{key}": value for key, value in of_operations(own).items()}
    if peak is not None:
        found |= _shares_of_peak(operations, peak)
    if account is not None:
        found |= of_servers(account, operations)
    found |= target_status.of_target(told)
    found |= _power_metrics(span, watched, study, found, spent)
    return found


def of_operations(operations: Sequence[Operation]) -> Metrics:
    """Amounts and rates of the operations of one phase.

    A rate is what all of them did over the time of all of them: that of the longest where they
    filled the phase side by side, the sum where they ran in turn. Of these it is absent where one
    does not tell its time; side by side, rates without times are summed.
    Latencies and shares are those of a single operation; those of several cannot be added up.
    """
    found: Metrics = {}
    for name, unit in (("bytes", "B"), ("operations", "1"), ("files", "1")):
        values = [value for op in operations if (value := getattr(op, name)) is not None]
        if values:
            found[name] = (float(sum(values)), unit)
    for name, unit, rate in (
        ("throughput_mib_s", "MiB/s", _rate(operations, "throughput_mib_s", "bytes", _MIB)),
        ("iops", "1/s", _rate(operations, "iops", "operations", 1)),
        ("files_per_s", "1/s", _rate(operations, "files_per_s", "files", 1)),
    ):
        if rate is not None:
            found[name] = (rate, unit)
    if len(operations) == 1:
        for name, value in operations[0].latency_us.items():
            found[f"latency_us_{name}"] = (float(value), "us")
        found |= {name: (float(value), "1") for name, value in operations[0].shares.items()}
    return found


def _rate(operations: Sequence[Operation], rate: str, amount: str, unit: int) -> float | None:
    """A rate over all operations that have one; `unit` is how much of the amount it counts as 1."""
    having = [op for op in operations if getattr(op, rate) is not None]
    if len(having) < 2:
        return float(getattr(having[0], rate)) if having else None
    in_turn = all(op.in_turn for op in having)
    parts: list[tuple[float, float]] = []
    for op in having:
        seconds, own, rated = op.seconds, getattr(op, amount), float(getattr(op, rate))
        if seconds is None and own is not None and rated > 0:
            seconds = own / unit / rated
        if seconds is None:
            return None if in_turn else float(sum(getattr(op, rate) for op in having))
        parts.append((rated * seconds, seconds))
    total_s = (sum if in_turn else max)(seconds for _, seconds in parts)
    return sum(done for done, _ in parts) / total_s if total_s > 0 else None


def _by_name(operations: Sequence[Operation]) -> dict[str, list[Operation]]:
    """Operations of each name: a tool may have repeated them."""
    found: dict[str, list[Operation]] = {}
    for op in operations:
        found.setdefault(op.operation, []).append(op)
    return found


def of_servers(account: Account, operations: Sequence[Operation]) -> Metrics:
    """What the servers took of the processors: as a share of one core, and for each operation.

    The account begins before the step's programs and ends after them; it is over the operations of
    all of the step. Where some of them are not counted, there is no share of one.
    """
    found: Metrics = {"server_cpu_s": (account.cpu_s, "s")}
    if account.seconds > 0:
        found["server_cpu_share"] = (account.cpu_s / account.seconds, "1")
    done = sum(op.operations or 0 for op in operations)
    if done and not any(op.uncounted for op in operations):
        found["server_cpu_us_per_io"] = (1e6 * account.cpu_s / done, "us")
    return found


def _shares_of_peak(operations: Sequence[Operation], peak: Peak) -> Metrics:
    """Each operation against the theoretical peak of its direction."""
    found: Metrics = {}
    by_name = _by_name(operations)
    for name, own in by_name.items():
        rates = of_operations(own)
        throughput, iops = rates.get("throughput_mib_s"), rates.get("iops")
        share = peak.share(
            name,
            throughput_mib_s=throughput[0] if throughput else None,
            iops=iops[0] if iops else None,
        )
        if share is not None:
            found["peak_share" if len(by_name) == 1 else f"{name}.peak_share"] = (share, "1")
    return found


def _power_metrics(
    span: Span,
    watched: Sequence[Watched],
    study: MeasurementStudy,
    amounts: Metrics,
    spent: Spent | None,
) -> Metrics:
    """Energy and power over the totals, their efficiency, and each meter's energy by itself."""
    found: Metrics = {}
    energies = {meter.entry.shown: _energy_j(meter, span, spent) for meter in watched}
    for meter in watched:
        value = energies[meter.entry.shown]
        if value is not None:
            found[_own_energy(meter)] = (value, "J")
    totals = [meter for meter in watched if meter.entry.role == "total"]
    parts = [energies[meter.entry.shown] for meter in totals]
    if span.seconds <= 0 or not parts or any(part is None for part in parts):
        return found
    gross_j = float(sum(part for part in parts if part is not None))
    taken_w = sum(entry.power for entry in study.subtract)
    kinds = [("", gross_j)]
    if study.subtract:
        kinds.append(("_net", gross_j - taken_w * span.seconds))
    estimated = any(meter.facts.estimate for meter in totals)
    own: Metrics = {}
    for suffix, total_j in kinds:
        own |= _efficiencies(span, total_j, suffix, study.study.edp_weights, amounts)
    own |= _spread(span, totals)
    found |= {_named(name, estimated): value for name, value in own.items()}
    return found | _ranges(totals, gross_j, spent)


def _energy_j(meter: Watched, span: Span, spent: Spent | None) -> float | None:
    """What a meter says; an estimate that knows what cores did says what its model makes of it."""
    parts = core_time.parts_j(meter.facts, spent)
    return meter.energy_j(span) if parts is None else sum(part.value for part in parts.values())


def _ranges(totals: Sequence[Watched], gross_j: float, spent: Spent | None) -> Metrics:
    """What an estimated total may be: the ends of each part, what of it was measured, the model.

    Absent where no total is an estimate by a model whose range is known, or several are.
    """
    estimates = [meter for meter in totals if meter.facts.estimate]
    if len(estimates) != 1 or estimates[0].facts.model is None:
        return {}
    (facts,) = (meter.facts for meter in estimates)
    parts = core_time.parts_j(facts, spent)
    if parts is None:
        return {}
    found: Metrics = {modelled.BY: (modelled.mark_of(facts.model or {}), "1")}
    measured_j = gross_j - sum(part.value for part in parts.values())
    if len(totals) > 1:
        found[modelled.MEASURED] = (measured_j, "J")
    for name, part in parts.items():
        found[f"{modelled.LOW}{name}"] = (part.low, "J")
        found[f"{modelled.HIGH}{name}"] = (part.high, "J")
    return found


def _efficiencies(
    span: Span, total_j: float, suffix: str, weights: Iterable[int], amounts: Metrics
) -> Metrics:
    """Energy, mean power and everything that divides work by them."""
    mean_w = total_j / span.seconds
    found: Metrics = {
        f"energy_j{suffix}": (total_j, "J"),
        f"power_w_mean{suffix}": (mean_w, "W"),
    }
    if mean_w <= 0:
        return found
    # The work's share of the span: rates are told for that, and the rest costs energy, too.
    work_s = span.seconds - amounts.get("deletes_s", (0.0, "s"))[0]
    worked = work_s / span.seconds
    for weight in weights:
        unit = "J s" if weight == 1 else f"J s^{weight}"
        product = efficiency.energy_delay_product(total_j, span.seconds, weight)
        found[f"edp_w{weight}{suffix}"] = (product, unit)
    if "throughput_mib_s" in amounts:
        throughput = _in_work(amounts, "throughput_mib_s", "bytes", _MIB, work_s)
        found[f"mib_per_joule{suffix}"] = (throughput * worked / mean_w, "MiB/J")
        found[f"mib_s_per_joule{suffix}"] = (throughput / total_j, "MiB/s/J")
    if "iops" in amounts:
        iops = _in_work(amounts, "iops", "operations", 1, work_s) * worked
        found[f"iops_per_watt{suffix}"] = (efficiency.iops_per_watt(iops, mean_w), "1/J")
        if iops > 0:
            found[f"energy_j_per_io{suffix}"] = (mean_w / iops, "J")
    if "files_per_s" in amounts:
        files_per_s = _in_work(amounts, "files_per_s", "files", 1, work_s) * worked
        found[f"files_per_joule{suffix}"] = (files_per_s / mean_w, "1/J")
        if files_per_s > 0:
            found[f"energy_j_per_file{suffix}"] = (mean_w / files_per_s, "J")
    return found


def _in_work(amounts: Metrics, rate: str, amount: str, unit: int, work_s: float) -> float:
    """A rate over all of a phase's work, as its energy is.

    No more was done in it than there was: where the tool's own seconds are fewer than those of the
    work, its rate times these would be more.
    """
    value = amounts[rate][0]
    if amount not in amounts or work_s <= 0:
        return value
    return min(value, amounts[amount][0] / unit / work_s)


def _spread(span: Span, totals: Sequence[Watched]) -> Metrics:
    """The distribution of power samples within the phase, summed over the totals."""
    spread = power.distribution(total_power_w(span, totals)[1])
    if spread is None:
        return {}
    named = {
        "power_w_min": spread.minimum_w,
        "power_w_p25": spread.quartile_w,
        "power_w_p50": spread.median_w,
        "power_w_p75": spread.upper_quartile_w,
        "power_w_max": spread.maximum_w,
    }
    if spread.deviation_w is not None:
        named["power_w_std"] = spread.deviation_w
    return {name: (value, "W") for name, value in named.items()} | {
        "power_samples": (float(spread.count), "1")
    }


def total_power_w(span: Span, totals: Sequence[Watched]) -> tuple[Series, Series]:
    """Times and summed power of the totals within a span, at the first one's samples."""
    start_s, end_s = bounds(span)
    first = totals[0]
    known = (first.time_s >= start_s) & (first.time_s <= end_s) & ~np.isnan(first.samples.power_w)
    time_s = first.time_s[known]
    power_w = first.samples.power_w[known].copy()
    for meter in totals[1:]:
        known = ~np.isnan(meter.samples.power_w)
        if known.any():
            power_w += np.interp(time_s, meter.time_s[known], meter.samples.power_w[known])
    return time_s, power_w


def without(found: Metrics, meter: Watched) -> Metrics:
    """Metrics of a phase without a single meter's own energy.

    Its label may be that of a host or an operation, too, whose other metrics stay.
    """
    return {name: value for name, value in found.items() if name != _own_energy(meter)}


def _own_energy(meter: Watched) -> str:
    """The metric of a single meter's energy."""
    return f"{meter.entry.shown}.{_named('energy_j', meter.facts.estimate)}"


def _named(name: str, estimated: bool) -> str:
    return f"estimated_{name}" if estimated else name
