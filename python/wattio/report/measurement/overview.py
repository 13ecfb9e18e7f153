"""Every system at a glance: its best setting in each phase, gross and net, in one table."""

from __future__ import annotations

from collections.abc import Iterator

from wattio.report.measurement import phrases, tables
from wattio.report.measurement.figures import product
from wattio.report.measurement.gather import Measured, PhasePart, WorkloadPart
from wattio.report.page import Block, Cell, Cells, Section, Text, as_data, grid
from wattio.report.phrases import DASH, number, percent
from wattio.report.plots import Table
from wattio.results.summary import Estimate, Row

SYSTEMS_LEAST = 2
"""With fewer systems the tables of the phases say it all."""

RATES = {"throughput_mib_s": "MiB/s", "iops": "ops/s", "files_per_s": "files/s"}
UNTOLD_MAX = 4
"""Most phases of which it is said that the estimate cannot tell."""

CAPACITY = "capacity_tb_per_watt"
WEIGHT = 1
"""The energy-delay product that is shown is E t, as Erxleben has it (2022, and the thesis)."""


def section(found: Measured) -> list[Section]:
    """The table; none for fewer than two systems, or where nothing is known of a rate."""
    chosen = list(best(found))
    if len({row.run.system for _, _, row in chosen}) < SYSTEMS_LEAST:
        return []
    net = bool(found.study.subtract)
    peaked = any(row.get("peak_share") for _, _, row in chosen)
    rows: list[Cells] = []
    subjects: list[int] = []
    for part in found.workloads:
        for phase in part.phases:
            own = [row for _, one, row in chosen if one is phase]
            if own:
                subjects.append(len(rows))
                rows.append(_subject(part, phase, _width(peaked=peaked, net=net)))
                rows += [_line(phase, row, found, peaked=peaked) for row in own]
    rows += _capacity(found, subjects, len(rows), peaked=peaked)
    text = "Of several settings of a system the one that does the most for a joule, the best system"
    text += " first; being chosen by what it showed, it is a little better than it will be again."
    text += " E·t is over the least of its comparison"
    text += "; net is less what the study subtracts." if net else "."
    unclear = [
        f" {part.name}, {phase.name}: {told}; the order says nothing."
        for part in found.workloads
        for phase in part.phases
        if (told := _untold(phase, [row for _, one, row in chosen if one is phase]))
    ]
    text += "".join(unclear[:UNTOLD_MAX])
    blocks: list[Block] = [
        grid("Systems at a glance", _columns(found, peaked=peaked), rows, subjects),
        Text(text, "note"),
        Text(as_data("overview.csv"), "note"),
    ]
    return [Section("Systems at a glance", blocks)]


def _untold(phase: PhasePart, rows: list[Row]) -> str:
    """That the estimate cannot tell the systems apart, where it cannot."""
    return phrases.efficiency_contest(phase, rows).estimate_says() if len(rows) > 1 else ""


def best(found: Measured) -> Iterator[tuple[WorkloadPart, PhasePart, Row]]:
    """The most efficient usable row of each system in each phase that has a rate, the best first.

    Of what has no efficiency the first is taken, and comes last.
    """
    for part in found.workloads:
        for phase in part.phases:
            if phase.rate is not None:
                yield from ((part, phase, row) for row in _best_of(phase, found))


def _best_of(phase: PhasePart, found: Measured) -> list[Row]:
    ranked = sorted(phase.used(), key=lambda row: -_work(phase, row, found))
    systems: dict[str, Row] = {}
    for row in ranked:
        systems.setdefault(row.run.system, row)
    return list(systems.values())


def _work(phase: PhasePart, row: Row, found: Measured) -> float:
    """Work for a joule; 0 where no sample saw the phase."""
    value = row.mean(phase.efficiency)
    return value if value is not None and phrases.has_samples(row, found) else 0.0


def _columns(found: Measured, *, peaked: bool) -> Cells:
    kind = phrases.estimate(found).strip(" ()")
    columns: list[Cell] = [Cell("system"), Cell("setting", look="text"), Cell("rate")]
    columns += [Cell("of peak")] if peaked else []
    kinds = ("gross", "net") if found.study.subtract else ("",)
    for name in ("efficiency", "E·t"):
        columns += [Cell(name, "\n".join(text for text in (one, kind) if text)) for one in kinds]
    return columns


def _width(*, peaked: bool, net: bool) -> int:
    return 3 + peaked + 2 * (1 + net)


def _subject(part: WorkloadPart, phase: PhasePart, width: int) -> Cells:
    """The line above the rows of a phase, with its units."""
    rate = RATES[phase.rate or "iops"]
    text = f"{part.name}: {phase.name}"
    empty = [Cell("")] * (width - 1)
    return [Cell(text, f"rate in {rate}, efficiency in {phrases.UNITS[phase.efficiency]}"), *empty]


def _line(phase: PhasePart, row: Row, found: Measured, *, peaked: bool) -> Cells:
    seen = phrases.has_samples(row, found)
    kinds = ("", "_net") if found.study.subtract else ("",)
    cells = [Cell(row.run.system), Cell(_setting(phase, row), look="text")]
    cells.append(_cell(row.get(phase.rate or "iops")))
    if peaked:
        share = row.mean("peak_share")
        cells.append(Cell(DASH if share is None else percent(share, 1)))
    cells += [_cell(row.get(f"{phase.efficiency}{kind}") if seen else None) for kind in kinds]
    for kind in kinds:
        value = product(phase, row, WEIGHT, net=bool(kind)) if seen else None
        cells.append(Cell(DASH if value is None else f"{value[0]:.2f}"))
    return cells


def _setting(phase: PhasePart, row: Row) -> str:
    """What is set beside the system."""
    text = phase.names.of(row.run)
    return text.removeprefix(row.run.system).removeprefix(", ")


def _cell(value: Estimate | None) -> Cell:
    if value is None:
        return Cell(DASH)
    spread = value.deviation
    return Cell(
        number(value.mean),
        "" if spread is None else f"± {phrases.deviation(value.mean, spread)}",
    )


def _capacities(found: Measured) -> list[tuple[str, float, float | None]]:
    """Capacity per watt of each system, gross and net; the most first, but by an estimate."""
    known: dict[str, tuple[float, float | None]] = {}
    for system in dict.fromkeys(row.run.system for row in found.idle):
        own = [row for row in found.idle if row.run.system == system]
        gross = tables.mean_of(own, CAPACITY)
        if gross is not None:
            known[system] = gross, tables.mean_of(own, f"{CAPACITY}_net")
    # One model's idle power on one machine ranks nothing.
    sign = 0 if found.estimated else -1
    ordered = sorted(known.items(), key=lambda item: sign * item[1][0])
    return [(system, gross, net) for system, (gross, net) in ordered]


def _capacity(found: Measured, subjects: list[int], at: int, *, peaked: bool) -> list[Cells]:
    """Capacity per watt of ready-idle power, in the columns of efficiency."""
    known = _capacities(found)
    net = bool(found.study.subtract)
    if len(known) < SYSTEMS_LEAST:
        return []
    subjects.append(at)
    width = _width(peaked=peaked, net=net)
    head = Cell("ready-idle", "raw capacity for each watt, in TB/W")
    rows: list[Cells] = [[head, *([Cell("")] * (width - 1))]]
    for system, gross, less in known:
        empty = [Cell("")] * (2 + peaked)
        own = [Cell(number(gross)), *([Cell(number(less))] if net else [])]
        rows.append([Cell(system), *empty, *own, *([Cell("")] * (1 + net))])
    return rows


def table(found: Measured) -> Table:
    """The same as data, with one column for each quantity."""
    head = ["workload", "phase", "system", "run", "rate", "rate_unit", "peak_share"]
    head += ["efficiency", "efficiency_net", "efficiency_unit", "edp", "edp_net", "estimate"]
    rows: Table = [[*head, CAPACITY, f"{CAPACITY}_net"]]
    capacities = {system: (gross, net) for system, gross, net in _capacities(found)}
    for part, phase, row in best(found):
        seen = phrases.has_samples(row, found)
        values: list[float | None] = [
            row.mean(phase.efficiency) if seen else None,
            row.mean(f"{phase.efficiency}_net") if seen else None,
        ]
        products = [product(phase, row, WEIGHT, net=net) if seen else None for net in (False, True)]
        cells: list[object] = [part.name, phase.name, row.run.system, row.run.name]
        cells += [row.mean(phase.rate or "iops"), RATES[phase.rate or "iops"]]
        cells += [row.mean("peak_share"), *values, phrases.UNITS[phase.efficiency]]
        cells += [None if value is None else value[0] for value in products]
        cells.append("yes" if row.is_estimated(phase.efficiency) else "no")
        cells += capacities.get(row.run.system, (None, None))
        rows.append(["" if cell is None else cell for cell in cells])
    return rows
