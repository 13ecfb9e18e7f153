"""What won: everything that did the same work, in one figure, whatever workload it belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from wattio.report import rankings
from wattio.report.measurement import servers
from wattio.report.measurement.gather import Measured, PhasePart, WorkloadPart
from wattio.report.measurement.phrases import UNITS, estimate, has_samples
from wattio.report.page import Section, Text, gallery
from wattio.report.rankings import Condition, Contest
from wattio.results.summary import Row, equal_work

TOLD_MAX = 12
"""Most contests that are told and drawn."""

Entry = tuple[WorkloadPart, PhasePart, Row]


def section(found: Measured) -> list[Section]:
    """The first section of the page; none where nothing is compared."""
    every = list(contests(found))
    if not every:
        return []
    told = [Text(f"{one.sentence()}") for one in every[:TOLD_MAX]]
    if len(every) > TOLD_MAX:
        told.append(Text(f"{len(every) - TOLD_MAX} more comparisons are in the tables.", "note"))
    return [Section("What won", [*told, *gallery([rankings.drawn(every[:TOLD_MAX])])])]


def contests(found: Measured) -> Iterator[Contest]:
    """Rows of equal work by energy (by time where no meter saw it), the rest by efficiency.

    Where systems tell what their servers took, that is what is compared, and comes first. Workloads
    of one module are compared with each other where they did the same work in a phase of one name;
    else the rows of a workload among themselves.
    """
    yield from servers.contests(found)
    modules = {
        item.run.subject: record.module
        for item in found.iterations
        if (record := found.records.get(item.identity)) and record.module is not None
    }
    groups: dict[tuple[str | None, str], list[Entry]] = {}
    for part in found.workloads:
        for phase in part.phases:
            if servers.of_phase("", phase, found) is not None:
                continue
            entries = [(part, phase, row) for row in phase.used()]
            groups.setdefault((modules.get(part.name), phase.name), []).extend(entries)
    for group in groups.values():
        for equal in _equal(group):
            contest = _of_work(equal, found)
            if contest is not None:
                yield contest
    for part in found.workloads:
        for phase in part.phases:
            if servers.of_phase("", phase, found) is not None:
                continue
            if not any(equal_work([row, other]) for row, other in _pairs(phase.used())):
                contest = _of_efficiency(part, phase, found)
                if contest is not None:
                    yield contest


def _pairs(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    for at, row in enumerate(rows):
        yield from ((row, other) for other in rows[at + 1 :])


def _equal(group: list[Entry]) -> list[list[Entry]]:
    """Entries that did the same work, together."""
    found: list[list[Entry]] = []
    for entry in group:
        own = next((one for one in found if equal_work([one[0][2], entry[2]])), None)
        if own is None:
            found.append([entry])
        else:
            own.append(entry)
    return [one for one in found if len(one) > 1]


def _of_work(entries: list[Entry], found: Measured) -> Contest | None:
    energies = all(has_samples(row, found) and row.get("energy_j") for _, _, row in entries)
    name = "energy_j" if energies else "seconds"
    parts = list(dict.fromkeys(part.name for part, _, _ in entries))
    conditions = []
    for part, phase, row in entries:
        value = row.get(name)
        if value is None or not min(value.values) > 0:
            return None
        alone = len(part.rows) == len(part.phases)
        shown = phase.names.of(row.run)
        label = part.name if alone and len(parts) > 1 else shown
        label = f"{part.name}, {shown}" if len(parts) > 1 and not alone else label
        conditions.append(Condition(label, value.values, ranged=value.ranged))
    quantity = f"energy{estimate(found)}" if energies else "time"
    where = parts[0] if len(parts) == 1 else f"{parts[0]} and {len(parts) - 1} more of equal work"
    return Contest(f"{where}, {entries[0][1].name}", quantity, tuple(conditions))


def _of_efficiency(part: WorkloadPart, phase: PhasePart, found: Measured) -> Contest | None:
    conditions = []
    for row in phase.used():
        value = row.get(phase.efficiency)
        if value is None or not has_samples(row, found) or not min(value.values) > 0:
            continue
        label = phase.names.of(row.run)
        conditions.append(Condition(label, value.values, ranged=value.ranged))
    if len(conditions) < 2:
        return None
    quantity = f"{UNITS[phase.efficiency]}{estimate(found)}"
    return Contest(f"{part.name}, {phase.name}", quantity, tuple(conditions), higher_is_better=True)
