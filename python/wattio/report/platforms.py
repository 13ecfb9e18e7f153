"""The page of platforms side by side: as measured, by watt, by euro, as a share of the peak."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wattio.files.plain import plain
from wattio.kinds.measurement.platform import Platform
from wattio.kinds.measurement.platforms import Comparison, Joined, Line, headline
from wattio.kinds.measurement.schema import IDLE
from wattio.report import platform_figures
from wattio.report.page import (
    Block,
    Cell,
    Cells,
    Heading,
    Items,
    Page,
    Section,
    Text,
    gallery,
    grid,
    write,
)
from wattio.report.phrases import DASH, number, quantity
from wattio.results.compare import LEVEL, NAMES, Ratio, ends, p_value, several

TOLD_MAX = 4
"""Most phases that the head of the page speaks of."""


def make(file: Path, found: Comparison) -> Path:
    """Write the page with its figures and tables beside it. Raises ResultError."""
    names = [one.name for one in found.platforms]
    pages = [one for one in found.joined if one.of.subject != IDLE]
    told: list[Block] = [
        Text(f"{one.title}: {family[0].second_run} over {names[0]}: {headline(family)}", "headline")
        for one in pages[:TOLD_MAX]
        for family in one.families
    ]
    if len(pages) > TOLD_MAX:
        told.append(Text(f"{len(pages) - TOLD_MAX} more are below.", "note"))
    doubts: list[Block] = [Text(doubt, "warning") for doubt in found.doubts]
    count = sum(len(one.families) for one in found.joined)
    note = (
        f"Ratios are over {names[0]}, by Welch's t test of the logarithm of the ratio of means,"
        " over repetitions. A difference is beyond noise where p, corrected for all metrics of its"
        f" table by Holm's method, is below {LEVEL:g}; 95 % intervals are of each metric alone."
        f" Prices and peaks are taken as exact. {several(count)}"
    )
    figures = list(platform_figures.of_workloads(found, names))
    if any(one.families for one in pages):
        figures.append(platform_figures.ratios(pages, names))
    sections = [
        Section("The platforms", [_platforms(found.platforms)]),
        Section("Side by side", gallery(figures, f"{file.stem}-")),
        *(
            Section(subject, _blocks(found.joined, subject, names))
            for subject in dict.fromkeys(one.of.subject for one in found.joined)
        ),
    ]
    if found.unjoined:
        sections.append(Section("Not joined", [Items(list(found.unjoined))]))
    page = Page(
        "platforms",
        "platforms",
        " and ".join(names),
        [*told, *doubts, Text(note.strip(), "note")],
        sections,
        {f"{file.stem}-values": platform_figures.values(found.joined, names)},
    )
    return write(file.parent, page, file.name)


def _platforms(platforms: Sequence[Platform]) -> Block:
    columns: Cells = ["", *(Cell(one.name, look="text") for one in platforms)]
    told = [_facts(one) for one in platforms]
    rows: list[Cells] = [[name, *(facts[name] for facts in told)] for name in told[0]]
    return grid("The platforms", columns, rows)


def _facts(one: Platform) -> dict[str, str]:
    machine, price = one.folder.machine(), one.about.price_eur
    iterations = one.folder.iterations()
    bad = sum(not item.usable for item in iterations)
    return {
        "description": one.about.description or DASH,
        "price": DASH if price is None else quantity(price, "EUR"),
        "price of": one.about.priced or DASH,
        "result": str(one.folder.path),
        "power of": ", ".join(one.covered),
        "less, in net figures": ", ".join(one.subtracted) or DASH,
        "iterations": f"{len(iterations)}, {bad} of them INVALID"
        + ("" if one.folder.complete() else "; not complete"),
        "scale": str(one.folder.inputs().get("scale") or "full"),
        "processor": str(machine.get("processor") or DASH),
        "kernel": str(machine.get("kernel") or DASH),
        "software": f"wattio {machine.get('wattio')}",
    }


def _blocks(joined: Sequence[Joined], subject: str, names: Sequence[str]) -> list[Block]:
    """Tables of a workload, each with its words and doubts."""
    found: list[Block] = []
    for one in joined:
        if one.of.subject == subject:
            found += [Heading(_called(one)), *_side_by_side(one, names)]
    return found


def _called(one: Joined) -> str:
    """A phase of a run, below the name of its workload."""
    return f"{one.of.condition}: {one.phase}" if one.phase else one.of.condition


def _side_by_side(one: Joined, names: Sequence[str]) -> list[Block]:
    columns: Cells = ["metric", *((name, "n") for name in names), "over the least"]
    columns = [*columns]
    for name in names[1:]:
        columns += [f"{name} / {names[0]}", "95 % interval", ("p", "corrected")]
    rows: list[Cells] = []
    for line in one.lines:
        cells: list[Any] = [(NAMES.get(line.metric, line.metric), _label(line))]
        for value in line.values:
            if value is None:
                cells.append(DASH)
                continue
            mark = ", estimated" if value.estimated else ""
            shown = quantity(value.estimate.mean, value.estimate.unit)
            cells.append((shown, f"n = {value.estimate.n}{mark}"))
        cells.append(_over_least(line))
        for ratio in line.ratios:
            cells += _compared(ratio)
        rows.append(cells)
    blocks: list[Block] = [
        Text(f"{family[0].second_run} over {names[0]}: {headline(family)}")
        for family in one.families
    ]
    blocks.append(grid(one.title, columns, rows))
    return [*blocks, *(Text(doubt, "warning") for doubt in one.doubts)]


def _label(line: Line) -> str:
    return "estimated" if line.estimated else line.metric


def _over_least(line: Line) -> str:
    if not line.metric.startswith("edp"):
        return DASH
    return ", ".join(number(value) for value in line.over_least if value is not None) or DASH


def _compared(ratio: Ratio | None) -> list[str]:
    if ratio is None:
        return [DASH] * 3
    return [plain(ratio.ratio, 4), ends(ratio.interval, DASH), p_value(ratio.p, DASH)]
