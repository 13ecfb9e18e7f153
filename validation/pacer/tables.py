"""The tables of "published against ours", as rows and as Markdown, and how their numbers look."""

from __future__ import annotations

import math
from typing import Any

from wattio.analysis.statistics import Interval
from wattio.report.phrases import number
from wattio.report.plots import Table

from validation.common.bars import ends
from validation.pacer.checks import Check
from validation.pacer.entries import KINDS, NOT_RUN, Compared, Reading
from validation.pacer.floor import Floor
from validation.pacer.tail import Tail


def table(compared: list[Compared]) -> Table:
    """One row for each reading of each published number."""
    rows: Table = [
        [
            *("key", "where", "quantity", "unit", "kind", "published", "reading", "ours", "low"),
            *("high", "deviation_percent", "deviates", "background_done", "floor_missed", "why"),
        ]
    ]
    for row in compared:
        entry = row.entry
        head = [entry.key, entry.where, entry.quantity, entry.unit, entry.kind, row.value]
        for reading in row.readings:
            deviation = row.deviation_percent(reading)
            rows.append(
                [
                    *head,
                    reading.label,
                    *_ours(reading),
                    "" if deviation is None else round(deviation, 3),
                    str(row.deviates(reading)).lower(),
                    "" if reading.done is None else reading.done.estimate,
                    "" if reading.done is None else str(reading.floor_missed).lower(),
                    row.why,
                ]
            )
    return rows


def tail_table(tails: list[Tail]) -> Table:
    """One row for each sentence on p99 at each load; what was not run is empty."""
    rows: Table = [
        [
            *("load", "where", "claim", "against", "ondemand_p99", "pacer_p99"),
            *("deviation_percent", "low", "high", "outcome", "why"),
        ]
    ]
    for tail in tails:
        values = [_estimate(tail.ondemand), _estimate(tail.pacer), *ends(tail.more_percent)]
        head = [tail.load, tail.where, tail.claim, tail.against]
        rows.append([*head, *values, tail.outcome, tail.why])
    return rows


def floor_table(floor: Floor) -> Table:
    """One row for each policy and load that left background work undone, the worst first."""
    rows: Table = [
        [
            *("policy", "load", "background_done", "low", "high"),
            *("seeds_missed", "seeds", "saving_percent"),
        ]
    ]
    for one in floor.missed:
        seeds = [one.seeds_missed, one.seeds]
        rows.append([one.label, one.load, *ends(one.done), *seeds, _estimate(one.saving_percent)])
    return rows


def _estimate(value: Interval | None) -> float | str:
    return ends(value)[0]


def markdown(compared: list[Compared], tails: list[Tail], floor: Floor, checks: list[Check]) -> str:
    """All tables as Markdown: results and fitted numbers, the tail, the floor, the checks."""
    inputs = [row for row in compared if row.entry.kind == "input"]
    odd = [row.entry.quantity for row in inputs if row.differs]
    results: Table = [["quantity", "where", "published", "ours", "deviation", "why"]]
    for row in compared:
        if row.entry.kind != "input":
            results += _markdown_rows(row)
    lines = ["# PACER: published against ours", "", *_markdown_table(results)]
    lines += ["", "## p99 against ondemand", "", *_markdown_table(tail_table(tails))]
    lines += ["", "## Background work left undone", "", *_markdown_table(floor_table(floor)), ""]
    lines += [f"{len(inputs)} inputs are not results; other than published: {odd or 'none'}.", ""]
    lines += [f"- **{check.outcome}**: {check.claim}: {check.detail}" for check in checks]
    return "\n".join(lines) + "\n"


def _markdown_rows(row: Compared) -> Table:
    """A published number with each of its readings; what is the same stands once."""
    entry = row.entry
    rows: Table = []
    head = [f"{entry.quantity} ({KINDS[entry.kind]})", entry.where, with_unit(row, row.value)]
    for reading in row.readings:
        ours = f"{ours_text(reading)} ({reading.label})".removesuffix(" ()")
        ours += f" **{undone_text(reading)}**" if reading.floor_missed else ""
        first = [*head, row.why] if not rows else 4 * [""]
        rows.append([*first[:3], ours, deviation_text(row, reading), first[3]])
    return rows


def _markdown_table(rows: Table) -> list[str]:
    """Rows of a table, the first as its head; floats with four digits."""
    texts = [
        [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows
    ]
    lines = ["| " + " | ".join(row) + " |" for row in texts]
    return [lines[0], "|" + len(rows[0]) * "---|", *lines[1:]]


def undone_text(reading: Reading) -> str:
    """That a value was reached with background work left undone; empty where it was not."""
    if reading.done is None or not reading.floor_missed:
        return ""
    return f"floor missed: {100 * reading.done.estimate:.0f} % of background done"


def value_text(value: object) -> str:
    """A published value as people read it."""
    if not isinstance(value, float | int):
        return str(value)
    return f"{value:g}" if abs(value) < 1e5 else number(float(value))


def with_unit(row: Compared, value: object) -> str:
    """A published value with the unit of its entry."""
    return f"{value_text(value)} {row.entry.unit}".strip()


def ours_text(reading: Reading) -> str:
    """Our value, without its interval."""
    if reading.value is None:
        return NOT_RUN
    if isinstance(reading.value, str):
        return reading.value
    estimate = reading.value.estimate
    known = reading.value.low == reading.value.high
    if known and estimate == round(estimate, 4):
        return value_text(round(estimate, 6))
    return number(estimate) if abs(estimate) >= 1e-9 else "0"


def interval_text(reading: Reading) -> str:
    """The confidence interval, where there is one with a width that can be seen."""
    value = reading.value
    if not isinstance(value, Interval) or value.low == value.high:
        return ""
    low, high = (four(end) for end in (value.low, value.high))
    return "" if low == high else f"{low} to {high}"


def deviation_text(row: Compared, reading: Reading) -> str:
    """The deviation with its sign, or a dash."""
    deviation = row.deviation_percent(reading)
    if deviation is None or (row.entry.kind == "input" and abs(deviation) < 1e-6):
        return "\N{EN DASH}"
    return f"{deviation:+.1f} %"


def four(value: float) -> str:
    """Four significant digits, zeros at the end kept."""
    size = abs(value)
    if size >= 1e4 or size < 1e-9:
        return number(value)
    return f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}"


def _ours(reading: Reading) -> list[Any]:
    if isinstance(reading.value, Interval):
        return ends(reading.value)
    return [reading.value or NOT_RUN, "", ""]
