"""The page "published against ours", and the files beside it in the result's `report/`."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio.analysis.statistics import Interval
from wattio.report import rendering
from wattio.report.drawing import Table
from wattio.report.phrases import number

from validation.common import pages
from validation.common.bars import ends
from validation.common.pages import MET, MISSED, OPEN, Line, Ours
from validation.pacer.checks import Check
from validation.pacer.data import BACKGROUND_FLOOR, PACER, Evaluation
from validation.pacer.entries import KINDS, NOT_RUN, Compared, Reading
from validation.pacer.figures import Slot
from validation.pacer.floor import Floor
from validation.pacer.tail import HELD, NOT_HELD, UNDECIDED, Tail

HEADER = [
    "key",
    "where",
    "quantity",
    "unit",
    "kind",
    "published",
    "reading",
    "ours",
    "low",
    "high",
    "deviation_percent",
    "deviates",
    "background_done",
    "floor_missed",
    "why",
]

ONLY_DRAWN = (
    ("2", "power by component", "shares of CPUs and SSDs together: in the text"),
    ("3", "IOPS of a server over 24 hours", "not in the text"),
    ("4", "distributions of IOPS, size and bandwidth", "not in the text"),
    ("5", "distribution of pressure over time", "one number in the text: under 10 % for 95 %"),
    ("6", "frequency against latency, IOPS, IOPS/W", "two numbers in the text, at 30 %"),
    ("7", "active cores against the same", "one number in the text, at 63 %"),
    ("10, 11", "latency and IOPS/W for different plf", "two numbers in the text, at plf 0.2"),
    (
        "12, 13",
        "latency and IOPS/W by access pattern",
        "geometric means of IOPS/W in the text; p99 in words only",
    ),
    (
        "14, 15",
        "latency and IOPS/W by method",
        "ondemand's 1.02 x in the text; p99 in words only",
    ),
    ("16", "p99 through a burst", "not in the text"),
    (
        "17, 18",
        "latency and IOPS/W on a trace",
        "mean latency and IOPS/W in the text; p99 in words only",
    ),
    ("19", "power under MLPerf Storage", "all four numbers in the text"),
)
"""Figures with values, what they show, and how much of that the text gives as numbers."""


TAIL_HEADER = [
    "load",
    "where",
    "claim",
    "against",
    "ondemand_p99",
    "pacer_p99",
    "deviation_percent",
    "low",
    "high",
    "outcome",
    "why",
]

FLOOR_HEADER = [
    "policy",
    "load",
    "background_done",
    "low",
    "high",
    "seeds_missed",
    "seeds",
    "saving_percent",
]


@dataclass(frozen=True)
class Found:
    """What the page shows: numbers, sentences on the tail, failures of the floor, checks."""

    compared: list[Compared]
    tails: list[Tail]
    floor: Floor
    checks: list[Check]


def make(study: Evaluation, found: Found, slots: list[Slot]) -> Path:
    """Write the page, its tables and figures; return the page. Raises OSError."""
    target = study.folder.path / "report"
    target.mkdir(exist_ok=True)
    for slot in slots:
        if slot.drawn is not None:
            rendering.write_figure(target, slot.drawn.name, slot.drawn)
    rendering.write_table(target / "published.csv", table(found.compared))
    rendering.write_table(target / "published-tail.csv", tail_table(found.tails))
    rendering.write_table(target / "published-floor.csv", floor_table(found.floor))
    (target / "published.md").write_text(markdown(found), encoding="utf-8")
    page = target / "published.html"
    page.write_text(_render(study, found, slots), encoding="utf-8")
    return page


def table(compared: list[Compared]) -> Table:
    """One row for each reading of each published number."""
    rows: Table = [list(HEADER)]
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
    rows: Table = [list(TAIL_HEADER)]
    for tail in tails:
        values = [_estimate(tail.ondemand), _estimate(tail.pacer), *ends(tail.more_percent)]
        head = [tail.load, tail.where, tail.claim, tail.against]
        rows.append([*head, *values, tail.outcome, tail.why])
    return rows


def floor_table(floor: Floor) -> Table:
    """One row for each policy and load that left background work undone, the worst first."""
    rows: Table = [list(FLOOR_HEADER)]
    for one in floor.missed:
        seeds = [one.seeds_missed, one.seeds]
        rows.append([one.label, one.load, *ends(one.done), *seeds, _estimate(one.saving_percent)])
    return rows


def summary(found: Found) -> list[Line]:
    """What the page begins with: results, sentences on the tail, and what the server was fitted to.

    The law as the document prints it stands in the tables below only.
    """
    sentences = dict.fromkeys((tail.claim, tail.where) for tail in found.tails)
    return [
        *(_line(row) for row in found.compared if row.entry.kind == "result"),
        *(_sentence(found.tails, *one) for one in sentences),
        *(_line(row) for row in found.compared if row.entry.kind == "fitted"),
    ]


def _line(row: Compared) -> Line:
    """A published number, as the summary has it."""
    ours = [_reading(row, one) for one in row.readings if "printed" not in one.label]
    published = f"{value_text(row.value)} {row.entry.unit}".strip()
    return Line(row.entry.quantity, published, ours, rendering.slug(row.entry.key))


def _reading(row: Compared, reading: Reading) -> Ours:
    label = "" if reading.label in row.entry.quantity else reading.label
    if reading.value is None:
        return Ours(NOT_RUN, OPEN, NOT_RUN, label)
    text = f"{ours_text(reading)} {row.entry.unit}".strip()
    if reading.floor_missed:
        return Ours(text, MISSED, "no: background work left undone", label)
    deviation = deviation_text(row, reading)
    if row.entry.kind == "fitted":
        return Ours(text, OPEN, f"fitted to it, {deviation}", label)
    outcome = MISSED if row.deviates(reading) else MET
    return Ours(text, outcome, f"{outcome}, {deviation}", label)


def _sentence(tails: list[Tail], claim: str, where: str) -> Line:
    """One sentence of the document on p99, over all loads that it may stand for."""
    counts = Counter(one.outcome for one in tails if (one.claim, one.where) == (claim, where))
    outcome = MET if {*counts} == {HELD} else MISSED if {*counts} == {NOT_HELD} else OPEN
    said = outcome if outcome != OPEN else "in part" if counts[HELD] else UNDECIDED
    if {*counts} == {NOT_RUN}:
        said = NOT_RUN
    ours = Ours(f"held in {counts[HELD]} of {counts.total()} comparisons", outcome, said)
    return Line(f"p99 {claim} ({where})", "in words", [ours], "tail")


def _estimate(value: Interval | None) -> float | str:
    return ends(value)[0]


def markdown(found: Found) -> str:
    """All tables as Markdown: results and fitted numbers, the tail, the floor, the checks."""
    compared = found.compared
    lines = ["# PACER: published against ours", ""]
    lines += [
        "| quantity | where | published | ours | deviation | why |",
        "|---|---|---|---|---|---|",
    ]
    for row in compared:
        if row.entry.kind != "input":
            lines += _markdown_rows(row)
    lines += ["", "## p99 against ondemand", "", *_markdown_table(tail_table(found.tails))]
    lines += ["", "## Background work left undone", "", *_markdown_table(floor_table(found.floor))]
    inputs = [row for row in compared if row.entry.kind == "input"]
    odd = [row.entry.quantity for row in inputs if row.differs]
    lines += [
        "",
        f"{len(inputs)} inputs are not results; other than published: {odd or 'none'}.",
        "",
    ]
    lines += [f"- **{check.outcome}**: {check.claim}: {check.detail}" for check in found.checks]
    return "\n".join(lines) + "\n"


def _markdown_table(rows: Table) -> list[str]:
    """Rows of a table, the first as its head; floats with four digits."""
    texts = [
        [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows
    ]
    lines = ["| " + " | ".join(row) + " |" for row in texts]
    return [lines[0], "|" + len(rows[0]) * "---|", *lines[1:]]


def _markdown_rows(row: Compared) -> list[str]:
    lines = []
    for place, reading in enumerate(row.readings):
        first = place == 0
        quantity = f"{row.entry.quantity} ({KINDS[row.entry.kind]})" if first else ""
        cells = [
            quantity,
            row.entry.where if first else "",
            f"{value_text(row.value)} {row.entry.unit}".strip() if first else "",
            f"{ours_text(reading)} ({reading.label})".removesuffix(" ()") + _undone(reading),
            deviation_text(row, reading),
            row.why if first else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _undone(reading: Reading) -> str:
    text = undone_text(reading)
    return f" **{text}**" if text else ""


def undone_text(reading: Reading) -> str:
    """That a value was reached with background work left undone; empty where it was not."""
    if reading.done is None or not reading.floor_missed:
        return ""
    return f"floor missed: {100 * reading.done.estimate:.0f} % of background done"


def value_text(value: object) -> str:
    """A published value as people read it."""
    return f"{value:g}" if isinstance(value, float | int) and abs(value) < 1e5 else _large(value)


def ours_text(reading: Reading) -> str:
    """Our value, without its interval."""
    if reading.value is None:
        return NOT_RUN
    if isinstance(reading.value, str):
        return reading.value
    estimate = reading.value.estimate
    known = reading.value.low == reading.value.high
    return (
        value_text(round(estimate, 6))
        if known and estimate == round(estimate, 4)
        else _three(estimate)
    )


def interval_text(reading: Reading) -> str:
    """The confidence interval, where there is one with a width that can be seen."""
    value = reading.value
    if not isinstance(value, Interval) or value.low == value.high:
        return ""
    low, high = (_four(end) for end in (value.low, value.high))
    return "" if low == high else f"{low} to {high}"


def deviation_text(row: Compared, reading: Reading) -> str:
    """The deviation with its sign, or a dash."""
    deviation = row.deviation_percent(reading)
    if deviation is None or (row.entry.kind == "input" and abs(deviation) < 1e-6):
        return "\N{EN DASH}"
    return f"{deviation:+.1f} %"


def _three(value: float) -> str:
    return number(value) if abs(value) >= 1e-9 else "0"


def _four(value: float) -> str:
    """Four significant digits, zeros at the end kept."""
    size = abs(value)
    if size >= 1e4 or size < 1e-9:
        return number(value)
    return f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}"


def _large(value: object) -> str:
    return number(float(value)) if isinstance(value, float | int) else str(value)


def _ours(reading: Reading) -> list[Any]:
    if isinstance(reading.value, Interval):
        return ends(reading.value)
    return [reading.value or NOT_RUN, "", ""]


def _render(study: Evaluation, found: Found, slots: list[Slot]) -> str:
    environment = pages.environment(Path(__file__).parent)
    environment.filters |= {
        "value": value_text,
        "ours": ours_text,
        "interval": interval_text,
        "slug": rendering.slug,
        "undone": undone_text,
        "four": _four,
    }
    environment.globals["deviation"] = deviation_text
    pacer = study.run("day", PACER) or next(
        (study.run(load, PACER) for load in study.loads(PACER)), None
    )
    return environment.get_template("page.html.j2").render(
        lines=summary(found),
        name=study.folder.name,
        complete=study.folder.complete(),
        compared=sorted(found.compared, key=lambda row: not row.entry.key.startswith("results.")),
        kinds=KINDS,
        checks=found.checks,
        tails=found.tails,
        floor=found.floor,
        floor_percent=100 * BACKGROUND_FLOOR,
        slots=[(slot, _embedded(slot)) for slot in slots],
        only_drawn=ONLY_DRAWN,
        servers=study.inputs["servers"],
        seeds=study.folder.resolved()["study"]["seeds"],
        settings=dict(pacer.settings) if pacer else {},
        machine=study.folder.machine(),
    )


def _embedded(slot: Slot) -> dict[str, Any] | None:
    return None if slot.drawn is None else rendering.embedded([slot.drawn])[0]
