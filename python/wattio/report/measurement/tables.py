"""The tables of a measurement's report: on the page, and as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wattio.kinds.measurement.plan import AFTER, BEFORE
from wattio.report.measurement import servers
from wattio.report.measurement.figures import product
from wattio.report.measurement.gather import Measured, PhasePart
from wattio.report.measurement.phrases import UNITS, deviation, estimate
from wattio.report.page import Block, Grid, Heading, Text, as_data, grid
from wattio.report.phrases import DASH, latency, number, percent
from wattio.report.plots import Table
from wattio.results.summary import Estimate, Row

Pair = tuple[str, str]
"""What stands in a cell, and in small letters below."""

TAILS = ("mean", "p99", "p999", "p9999")
"""Latencies that a table shows where some row has them."""

_SPOKEN = {"p999": "p99.9", "p9999": "p99.99"}

ROWS_SHOWN = 80
"""Most rows of a table on the page; all of them are in the CSV file."""

_RATES = {
    "throughput_mib_s": ("throughput", "MiB/s"),
    "iops": ("operations", "1/s"),
    "files_per_s": ("files", "1/s"),
}


BUSY, IDLE = "cores_busy_s", "cores_idle_s"
"""Core-seconds of this machine, where its kernel showed them."""

UTILISATION = "accelerator_utilisation"
"""Share of the time in which accelerators compute, where a workload has some."""

_RAISED = str.maketrans("2345678", "²³⁴⁵⁶⁷⁸")


def of_phase(phase: PhasePart, found: Measured) -> list[Block]:
    """How fast, and for how much energy; nothing where no iteration may be used."""
    if not phase.used():
        return [Text("No iteration of this phase may be used.")]
    blocks: list[Block] = []
    blocks += servers.table(phase, found)
    for shown in (_fast(phase, found), _energy(phase, found)):
        blocks += [Heading(shown.name, 4), shown]
    left = len(phase.rows) - ROWS_SHOWN
    if left > 0:
        blocks.append(Text(as_data("table.csv", f"{left} more rows are in"), "note"))
    return blocks


def _fast(phase: PhasePart, found: Measured) -> Grid:
    net = bool(found.study.subtract)
    rate = phase.rate
    kind = estimate(found).strip(" ()")
    columns: list[Pair] = [("run", ""), ("used", "iterations"), ("time", "s")]
    if rate is not None:
        columns.append(_RATES[rate])
    peaked = any("peak_share" in name for row in phase.rows for name in row.metrics)
    if peaked:
        columns.append(("of peak", ""))
    trained = any(row.get(UTILISATION) for row in phase.rows)
    if trained:
        columns.append(("accelerators", "busy"))
    ends = {name.rpartition("latency_us_")[2] for row in phase.rows for name in row.metrics}
    tails = [tail for tail in TAILS if tail in ends]
    columns += [("latency", _SPOKEN.get(tail, tail)) for tail in tails]
    columns.append(("power", _joined("W", kind)))
    columns.append(("efficiency", _joined(UNITS[phase.efficiency], kind)))
    if net:
        columns.append(("net", _joined(UNITS[phase.efficiency], kind)))
    rows = []
    for row in phase.rows[:ROWS_SHOWN]:
        cells = [(phase.names.of(row.run), ""), _used(row), _cell(row.get("seconds"))]
        busy = [_share(row.get(UTILISATION))] if trained else []
        cells += _rated(row, "", rate, peaked, tails, busy)
        cells.append(_cell(row.get("power_w_mean")))
        cells.append(_cell(row.get(phase.efficiency)))
        if net:
            cells.append(_cell(row.get(f"{phase.efficiency}_net")))
        rows.append(cells)
        for part in _operations(row):
            own = [(f"{DASH} {part}", ""), ("", ""), ("", "")]
            own += _rated(row, f"{part}.", rate, peaked, tails)
            rows.append(own + [("", "")] * (len(columns) - len(own)))
    return grid("Speed and efficiency", columns, rows)


def _energy(phase: PhasePart, found: Measured) -> Grid:
    net, kind = bool(found.study.subtract), estimate(found).strip(" ()")
    columns: list[Pair] = [("run", ""), ("total, gross" if net else "total", _joined("J", kind))]
    if net:
        columns.append(("total, net", _joined("J", kind)))
    weights = found.study.study.edp_weights if phase.comparisons else []
    columns += [(_edp(weight), "to the\nleast") for weight in weights]
    if net:
        columns += [(_edp(weight), "net, to the\nleast") for weight in weights]
    told = any(row.get(BUSY) for row in phase.rows)
    if told:
        columns += [("cores busy", "core-s"), ("cores idle", "core-s")]
    for meter in found.study.meter:
        guess = "ESTIMATE" if found.is_estimate(meter) else ""
        columns.append((meter.shown, _joined("J", meter.role, guess)))
    rows = []
    for row in phase.rows[:ROWS_SHOWN]:
        total = row.get("energy_j")
        cells = [(phase.names.of(row.run), ""), _cell(total)]
        if net:
            cells.append(_cell(row.get("energy_j_net")))
        for is_net in (False, True) if net else (False,):
            for weight in weights:
                value = product(phase, row, weight, net=is_net)
                cells.append((DASH if value is None else f"{value[0]:.2f}", ""))
        cells += [_cell(row.get(name)) for name in (BUSY, IDLE)] if told else []
        cells += [beside(row, meter.shown, total) for meter in found.study.meter]
        rows.append(cells)
    return grid("Energy", columns, rows)


def _edp(weight: int) -> str:
    return "E·t" if weight == 1 else "E·t" + str(weight).translate(_RAISED)


def _rated(
    row: Row,
    prefix: str,
    rate: str | None,
    peaked: bool,
    tails: Sequence[str],
    busy: Sequence[Pair] = (),
) -> list[Pair]:
    cells: list[Pair] = []
    if rate is not None:
        cells.append(_cell(row.get(prefix + rate)))
    if peaked:
        share = row.get(f"{prefix}peak_share")
        cells.append((percent(share.mean, 1) if share else DASH, ""))
    cells += busy
    for tail in tails:
        value = row.get(f"{prefix}latency_us_{tail}")
        spread = "" if value is None or value.deviation is None else latency(value.deviation)
        shown = latency(value.mean if value else None)
        cells.append((shown, f"± {spread}" if spread else ""))
    return cells


def _operations(row: Row) -> list[str]:
    """The operations that a phase is made of, where there are several."""
    names = (name.partition(".") for name in row.metrics)
    ends = ("throughput_mib_s", "iops")
    return list(dict.fromkeys(first for first, _, rest in names if rest in ends))


def _used(row: Row) -> Pair:
    return f"{row.used}" if row.used else "none", f"of {row.used + row.invalid}"


def _cell(value: Estimate | None) -> Pair:
    if value is None:
        return DASH, ""
    spread = "" if value.deviation is None else f"± {deviation(value.mean, value.deviation)}"
    return number(value.mean), spread


def _share(value: Estimate | None) -> Pair:
    if value is None:
        return DASH, ""
    spread = "" if value.deviation is None else f"± {100 * value.deviation:.1f}"
    return percent(value.mean, 1), spread


def beside(row: Row, label: str, total: Estimate | None) -> Pair:
    """A meter's own energy, and what share of the total that is."""
    value = row.get(f"{label}.energy_j") or row.metrics.get(f"{label}.estimated_energy_j")
    if value is None:
        return DASH, ""
    # Means over other iterations than those of the total are no share of it.
    if total is None or total.mean <= 0 or value.n != total.n:
        return number(value.mean), ""
    return number(value.mean), percent(value.mean / total.mean, 1)


def _joined(*texts: str) -> str:
    """Texts below each other; those that are empty are left out."""
    return "\n".join(text for text in texts if text)


def idle(found: Measured) -> Grid:
    """Ready-idle power before and after, and capacity for each watt of it."""
    kind = estimate(found).strip(" ()")
    columns: list[Pair] = [
        ("system", ""),
        ("before", _joined("W", kind)),
        ("after", _joined("W", kind)),
        ("change", "after to before"),
        ("raw capacity", "TB"),
        ("capacity per watt", _joined("TB/W, gross", kind)),
    ]
    net = bool(found.study.subtract)
    if net:
        columns.append(("capacity per watt", _joined("TB/W, net", kind)))
    rows = []
    for system in dict.fromkeys(row.run.system for row in found.idle):
        own = {
            row.run.condition.rpartition(", ")[2]: row
            for row in found.idle
            if row.run.system == system
        }
        powers = [
            own[when].get("power_w_mean") if when in own else None for when in (BEFORE, AFTER)
        ]
        before, after = powers
        change = DASH
        if before and after and before.mean > 0:
            change = f"{100 * (after.mean / before.mean - 1):+.1f}\N{NO-BREAK SPACE}%"
        cells: list[Pair] = [(system, ""), *_watts(own), (change, "")]
        names = ["raw_capacity_tb", "capacity_tb_per_watt"]
        names += ["capacity_tb_per_watt_net"] if net else []
        cells += [(number(mean_of(own.values(), name)), "") for name in names]
        rows.append(cells)
    return grid("Ready-idle", columns, rows)


def _watts(own: dict[str, Row]) -> list[Pair]:
    cells: list[Pair] = []
    for when in (BEFORE, AFTER):
        row = own.get(when)
        value = row.get("power_w_mean") if row else None
        if row is not None and not row.used:
            cells.append((DASH, "INVALID"))
            continue
        seconds = row.get("seconds") if row else None
        cells.append(
            (number(value.mean if value else None), f"{number(seconds.mean)} s" if seconds else "")
        )
    return cells


def mean_of(own: Iterable[Row], name: str) -> float | None:
    """The mean of a metric over rows that have it, such as before and after; None for none."""
    values = [value.mean for row in own if (value := row.get(name)) is not None]
    return sum(values) / len(values) if values else None


def of_metrics(rows: Sequence[Row]) -> Table:
    """Every metric of every row."""
    table: Table = [
        ["workload", "phase", "run", "metric", "unit", "n", "mean", "deviation", "low", "high"]
    ]
    for row in rows:
        for name, value in row.metrics.items():
            ends = (value.interval.low, value.interval.high) if value.interval else ("", "")
            deviation = "" if value.deviation is None else value.deviation
            head = [row.run.subject, row.phase, row.run.name, name, value.unit]
            table.append([*head, value.n, value.mean, deviation, *ends])
    return table


def of_verdicts(found: Measured) -> Table:
    """Every verdict of every iteration."""
    table: Table = [["iteration", "run", "repetition", "attempt", "verdict", "reason"]]
    for item in found.iterations:
        head = [item.identity, item.run.name, item.repetition + 1, item.attempt + 1]
        table += [[*head, verdict.verdict, verdict.reason] for verdict in item.verdicts]
    return table


def of_runs(found: Measured) -> list[tuple[str, list[int]]]:
    """VALID, WARN and INVALID iterations, and repeated attempts, of each run."""
    order = [*found.idle, *(row for part in found.workloads for row in part.rows)]
    runs = {row.run.name: [0, 0, 0, 0] for row in order}
    for item in found.last:
        tally = runs[item.run.name]
        warned = any(verdict.verdict == "WARN" for verdict in item.verdicts)
        tally[2 if not item.usable else 1 if warned else 0] += 1
    for item in found.iterations:
        runs[item.run.name][3] += 1
    return [(run, [*tally[:3], tally[3] - sum(tally[:3])]) for run, tally in runs.items()]


def codes(found: Measured, kind: str) -> dict[str, list[str]]:
    """Why iterations of each run have a verdict of a kind, each code once."""
    told: dict[str, dict[str, None]] = {}
    for item in found.last:
        told.setdefault(item.run.name, {}).update(dict.fromkeys(item.codes(kind)))
    return {run: list(known) for run, known in told.items()}
