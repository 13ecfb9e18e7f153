"""The page "published against ours", and the files beside it in the result's `report/`."""

from __future__ import annotations

import base64
import csv
import io
import math
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from pacer_checks import Check
from pacer_data import PACER, Evaluation
from pacer_entries import KINDS, NOT_RUN, Compared, Reading
from pacer_figures import Slot
from wattio.analysis.statistics import Interval
from wattio.report import rendering
from wattio.report.figures import Table
from wattio.report.phrases import number

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
    ("12, 13", "latency and IOPS/W by access pattern", "geometric means of IOPS/W in the text"),
    ("14, 15", "latency and IOPS/W by method", "ondemand's 1.02 x in the text"),
    ("16", "p99 through a burst", "not in the text"),
    ("17, 18", "latency and IOPS/W on a trace", "mean latency and IOPS/W in the text; p99 not"),
    ("19", "power under MLPerf Storage", "all four numbers in the text"),
)
"""Figures with values, what they show, and how much of that the text gives as numbers."""


def make(
    study: Evaluation, compared: list[Compared], checks: list[Check], slots: list[Slot]
) -> Path:
    """Write the page, its tables and figures; return the page. Raises OSError."""
    target = study.folder.path / "report"
    target.mkdir(exist_ok=True)
    for slot in slots:
        if slot.drawn is not None:
            (target / f"{slot.drawn.name}.svg").write_bytes(slot.drawn.image)
            _write(target / f"{slot.drawn.name}.csv", _csv(slot.drawn.table))
    _write(target / "published.csv", _csv(table(compared)))
    _write(target / "published.md", markdown(compared, checks))
    page = target / "published.html"
    _write(page, _render(study, compared, checks, slots))
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
                    row.why,
                ]
            )
    return rows


def markdown(compared: list[Compared], checks: list[Check]) -> str:
    """The table and the checks as Markdown: results and fitted numbers, then what is input."""
    lines = ["# PACER: published against ours", ""]
    lines += [
        "| quantity | where | published | ours | deviation | why |",
        "|---|---|---|---|---|---|",
    ]
    for row in compared:
        if row.entry.kind != "input":
            lines += _markdown_rows(row)
    inputs = [row for row in compared if row.entry.kind == "input"]
    odd = [row.entry.quantity for row in inputs if row.differs]
    lines += [
        "",
        f"{len(inputs)} inputs are not results; other than published: {odd or 'none'}.",
        "",
    ]
    lines += [f"- **{check.outcome}**: {check.claim}: {check.detail}" for check in checks]
    return "\n".join(lines) + "\n"


def _markdown_rows(row: Compared) -> list[str]:
    lines = []
    for place, reading in enumerate(row.readings):
        first = place == 0
        quantity = f"{row.entry.quantity} ({KINDS[row.entry.kind]})" if first else ""
        cells = [
            quantity,
            row.entry.where if first else "",
            f"{value_text(row.value)} {row.entry.unit}".strip() if first else "",
            f"{ours_text(reading)} ({reading.label})".removesuffix(" ()"),
            deviation_text(row, reading),
            row.why if first else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


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
    if reading.value is None:
        return [NOT_RUN, "", ""]
    if isinstance(reading.value, str):
        return [reading.value, "", ""]
    return [reading.value.estimate, reading.value.low, reading.value.high]


def _render(
    study: Evaluation, compared: list[Compared], checks: list[Check], slots: list[Slot]
) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "value": value_text,
        "ours": ours_text,
        "interval": interval_text,
        "typeset": typeset,
    }
    environment.globals["deviation"] = deviation_text
    pacer = study.run("day", PACER) or next(
        (study.run(load, PACER) for load in study.loads(PACER)), None
    )
    return environment.get_template("pacer_page.html.j2").render(
        style=rendering.style(),
        name=study.folder.name,
        complete=study.folder.complete(),
        compared=sorted(compared, key=lambda row: not row.entry.key.startswith("results.")),
        kinds=KINDS,
        checks=checks,
        slots=[(slot, _source(slot)) for slot in slots],
        only_drawn=ONLY_DRAWN,
        servers=study.inputs["servers"],
        seeds=study.folder.resolved()["study"]["seeds"],
        settings=dict(pacer.settings) if pacer else {},
        machine=study.folder.machine(),
    )


def typeset(text: str) -> str:
    """Factors with a multiplication sign; no line break before it or before a per cent sign."""
    text = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)
    return re.sub(r"(?<=[\d)]) x(?=[\s,;.)]|$)", "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}", text)


def _source(slot: Slot) -> str:
    return "" if slot.drawn is None else base64.b64encode(slot.drawn.image).decode()


def _csv(rows: Table) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
