"""Single nodes of a cluster: the meters that cover one each, and joules by node and phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wattio.kinds.measurement.schema import MeterEntry
from wattio.report.measurement.gather import Measured, WorkloadPart
from wattio.report.measurement.phrases import deviation
from wattio.report.page import Block, Cells, Heading, Text, as_data, grid
from wattio.report.phrases import DASH, number, percent
from wattio.report.plots import Table
from wattio.results.runs import Run
from wattio.results.summary import Estimate, Row

LEAST = 2
"""With fewer nodes there is nothing to tell apart."""

ROWS_SHOWN = 60
"""Most rows of a table on the page; all of them are in the CSV file."""


@dataclass(frozen=True)
class Node:
    """A node: its name, and its meter by the label that results have."""

    name: str
    label: str
    estimate: bool


def of_study(found: Measured) -> list[Node]:
    """The nodes that have meters of their own, in the study's order; none for fewer than two.

    They are what totals cover one by one; else what meters beside a total of several cover so.
    """
    totals = found.totals
    single = _single(totals)
    if len(single) < LEAST:
        together = {name for meter in totals if len(meter.covers) > 1 for name in meter.covers}
        beside = [meter for meter in found.study.meter if meter.role == "beside"]
        single = [meter for meter in _single(beside) if meter.covers[0] in together]
    if len(single) < LEAST:
        return []
    return [Node(meter.covers[0], meter.shown, found.is_estimate(meter)) for meter in single]


def _single(meters: Sequence[MeterEntry]) -> list[MeterEntry]:
    """Meters that cover one device; of several for one device the first."""
    known: dict[str, MeterEntry] = {}
    for meter in meters:
        if len(meter.covers) == 1:
            known.setdefault(meter.covers[0], meter)
    return list(known.values())


def joules(row: Row, node: Node) -> Estimate | None:
    """The energy of a node in a phase; None if no iteration told it."""
    name = "estimated_energy_j" if node.estimate else "energy_j"
    return row.metrics.get(f"{node.label}.{name}")


def of_part(part: WorkloadPart, runs: Sequence[Run], found: Measured) -> list[Block]:
    """Joules of each node in each phase, of the runs that are shown closely; or nothing."""
    known = of_study(found)
    if not known:
        return []
    phases = [phase.name for phase in part.phases]
    columns: Cells = [("run", ""), ("node", ""), *((phase, "J") for phase in phases)]
    rows: list[Cells] = []
    subjects = []
    for run in runs:
        own = {row.phase: row for row in part.rows if row.run.name == run.name and row.used}
        shown = part.phases[0].names.of(run)
        for node in known:
            label = (node.name, "ESTIMATE" if node.estimate else "")
            sums = {phase: _sum(row, known) for phase, row in own.items()}
            cells = [_cell(own.get(phase), node, sums.get(phase)) for phase in phases]
            rows.append([(shown, ""), label, *cells])
        subjects.append(len(rows))
        whole = [_whole(own.get(phase), known) for phase in phases]
        guess = ", ESTIMATE" if any(node.estimate for node in known) else ""
        rows.append([(shown, ""), ("all nodes", f"{len(known)}{guess}"), *whole])
    title = f"{part.name}: energy of each node"
    kept = rows[:ROWS_SHOWN]
    at = [place for place in subjects if place < len(kept)]
    text = "Means over usable iterations with the sample deviation, the share of all nodes and the"
    text += " mean power. What no meter of a single node covers, such as a switch, is not in it."
    if len(rows) > len(kept):
        text += f" {len(rows) - len(kept)} more rows are in the CSV file."
    data = as_data("nodes.csv", "Every run, as data")
    return [Heading(title), grid(title, columns, kept, at), Text(text, "note"), Text(data, "note")]


def _cell(row: Row | None, node: Node, whole_j: float | None) -> tuple[str, str]:
    value = None if row is None else joules(row, node)
    if row is None or value is None:
        return DASH, ""
    small = [] if value.deviation is None else [f"± {deviation(value.mean, value.deviation)}"]
    if value.n < row.used:
        # The time, and what other nodes have, are means over other iterations.
        return number(value.mean), "\n".join([*small, f"in {value.n} of {row.used}"])
    share = [percent(value.mean / whole_j, 1)] if whole_j else []
    power_w = _power_w(row, value.mean)
    share += [] if power_w is None else [f"{number(power_w)} W"]
    return number(value.mean), "\n".join([*small, ", ".join(share)])


def _whole(row: Row | None, known: Sequence[Node]) -> tuple[str, str]:
    """The energy of all nodes together."""
    energy_j = None if row is None else _sum(row, known)
    if row is None or energy_j is None:
        return DASH, ""
    power_w = _power_w(row, energy_j)
    return number(energy_j), "" if power_w is None else f"{number(power_w)} W"


def _sum(row: Row, known: Sequence[Node]) -> float | None:
    """The sum over the nodes; None if one of them told nothing, or not in each iteration."""
    values = [joules(row, node) for node in known]
    some = [value.mean for value in values if value is not None and value.n == row.used]
    return sum(some) if len(some) == len(values) else None


def _power_w(row: Row, energy_j: float) -> float | None:
    seconds = row.mean("seconds")
    return energy_j / seconds if seconds else None


def table(found: Measured) -> Table:
    """Joules of each node in each phase of each run, for CSV; the header alone without nodes."""
    head = ["run", "phase", "node", "meter", "metric", "unit", "n", "mean", "deviation"]
    return [[*head, "low", "high"], *_lines(found)]


def _lines(found: Measured) -> Iterator[list[object]]:
    known = of_study(found)
    every = [row for part in found.workloads for phase in part.phases for row in phase.used()]
    for row in every:
        for node in known:
            value = joules(row, node)
            if value is None:
                continue
            metric = "estimated_energy_j" if node.estimate else "energy_j"
            ends = (value.interval.low, value.interval.high) if value.interval else ("", "")
            spread = "" if value.deviation is None else value.deviation
            own = [row.run.name, row.phase, node.name, node.label, metric, value.unit]
            yield [*own, value.n, value.mean, spread, *ends]
