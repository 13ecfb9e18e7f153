"""The page "published against ours", and the files beside it in the result's `report/`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio.report import output

from validation.common import pages
from validation.common.pages import MET, MISSED, OPEN, Line, Ours
from validation.pacer import tables
from validation.pacer.checks import Check
from validation.pacer.data import BACKGROUND_FLOOR, PACER, Evaluation
from validation.pacer.entries import NOT_RUN, Compared, Reading
from validation.pacer.figures import Slot
from validation.pacer.floor import Floor
from validation.pacer.tables import deviation_text, ours_text, with_unit
from validation.pacer.tail import HELD, NOT_HELD, UNDECIDED, Tail

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
    ("14, 15", "latency and IOPS/W by method", "ondemand's 1.02 x in the text; p99 in words only"),
    ("16", "p99 through a burst", "not in the text"),
    (
        "17, 18",
        "latency and IOPS/W on a trace",
        "mean latency and IOPS/W in the text; p99 in words only",
    ),
    ("19", "power under MLPerf Storage", "all four numbers in the text"),
)
"""Figures with values, what they show, and how much of that the text gives as numbers."""


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
            output.write_figure(target, slot.drawn.name, slot.drawn)
    output.write_table(target / "published.csv", tables.table(found.compared))
    output.write_table(target / "published-tail.csv", tables.tail_table(found.tails))
    output.write_table(target / "published-floor.csv", tables.floor_table(found.floor))
    text = tables.markdown(found.compared, found.tails, found.floor, found.checks)
    (target / "published.md").write_text(text, encoding="utf-8")
    page = target / "published.html"
    page.write_text(_render(study, found, slots), encoding="utf-8")
    return page


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
    return Line(row.entry.quantity, with_unit(row, row.value), ours, output.slug(row.entry.key))


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


def _render(study: Evaluation, found: Found, slots: list[Slot]) -> str:
    environment = pages.environment(Path(__file__).parent)
    environment.filters |= {
        "value": tables.value_text,
        "ours": ours_text,
        "interval": tables.interval_text,
        "slug": output.slug,
        "undone": tables.undone_text,
        "four": tables.four,
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
    return None if slot.drawn is None else output.embedded([slot.drawn])[0]
