"""The page that compares two results: what differs beyond noise, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from wattio.report import dots
from wattio.report.page import Block, Cell, Cells, Page, Section, Text, gallery, grid, write
from wattio.report.phrases import DASH, number, quantity
from wattio.report.plots import Drawn, Table
from wattio.results.compare import (
    HIGHER_IS_BETTER,
    LEVEL,
    NAMES,
    SLIGHT_PERCENT,
    Ratio,
    Side,
    ends,
    method,
    p_value,
    sentence,
    several,
    share,
)

DRAWN_MAX = 12
"""Most pairs of runs that are drawn; all of them have a table."""

TOLD_MAX = 8
"""Most pairs of runs that the head of the page speaks of."""

Groups = Sequence[Sequence[Ratio]]

_KINDS = (
    ("better, beyond noise", "#009E73", "o", True),
    ("worse, beyond noise", "#D55E00", "X", True),
    ("within noise", "#666666", "o", False),
    ("noise not known", "#666666", "d", False),
    (f"below {SLIGHT_PERCENT:g} %, beyond noise", "#666666", "s", True),
)


def make(file: Path, first: Side, second: Side, groups: Groups) -> Path:
    """Write the page of a comparison with its figure and table beside it. Raises ResultError.

    `groups` are the ratios of each phase of each pair of runs.
    """
    told = [Text(f"{_title(group)}: {sentence(group)}", "headline") for group in groups[:TOLD_MAX]]
    left = len(groups) - len(told)
    more = [Text(f"{left} more pairs are below.", "note")] if left > 0 else []
    note = (
        "Ratios are second over first. A difference is beyond noise where p, corrected for all"
        f" metrics of its table by Holm's method, is below {LEVEL:g}; 95 % intervals are of each"
        f" metric alone, and may leave 1 out where p is not below. {several(len(groups))}"
    )
    lead: list[Block] = [*told, *more, Text(note.strip(), "note")]
    drawn = gallery([_figure(groups[:DRAWN_MAX])], f"{file.stem}-")
    names = [f"{side.folder.path.parent.name} {side.folder.name}" for side in (first, second)]
    page = Page(
        "compared",
        "compared",
        f"{names[1]} against {names[0]}" if names[0] != names[1] else f"Two runs of {names[0]}",
        lead,
        [
            Section("What differs", drawn),
            *(_section(group) for group in groups),
            _heads(first, second),
        ],
        {f"{file.stem}-ratios": _table(groups)},
    )
    return write(file.parent, page, file.name)


def _title(group: Sequence[Ratio]) -> str:
    one, other = group[0].first_run, group[0].second_run
    phase = f", {group[0].phase}" if group[0].phase else ""
    return (one if one == other else f"{other} against {one}") + phase


def _section(group: Sequence[Ratio]) -> Section:
    columns: Cells = [
        *("metric", ("first", "n"), ("second", "n"), "ratio", "95 % interval"),
        *(("p", "corrected"), ("would be seen", "from"), "is"),
    ]
    rows: list[Cells] = []
    for item in group:
        name = NAMES.get(item.metric, item.metric)
        sides = [
            (quantity(side.mean, item.unit), f"n = {side.n}") for side in (item.first, item.second)
        ]
        kind = _KINDS[_kind(item)][0]
        look = "broken" if kind.startswith("worse") else ""
        label = (name, "estimated" if item.estimated else item.metric)
        size = item.detectable_share
        values = [f"{item.ratio:.4f}", ends(item.interval, DASH), p_value(item.p, DASH)]
        seen = DASH if size is None else share(size)
        rows.append([label, *sides, *values, seen, Cell(kind, look=look)])
    return Section(
        _title(group),
        [
            Text(sentence(group)),
            grid(_title(group), columns, rows),
            Text(f"{method(group)}.", "note"),
        ],
    )


def _kind(item: Ratio) -> int:
    """Which of _KINDS a ratio is."""
    if item.interval is None:
        return 3
    if not item.beyond_noise:
        return 2
    if item.is_slight:
        return 4
    return 0 if (item.ratio > 1) == (item.metric in HIGHER_IS_BETTER) else 1


def _figure(groups: Groups) -> Drawn:
    panels = [dots.Panel(_title(group), [_dot(item) for item in group]) for group in groups]
    panels[-1] = replace(panels[-1], x_label="second over first")
    handles = [
        Line2D([], [], label=label, linestyle="none", **_look(at))
        for at, (label, *_) in enumerate(_KINDS)
    ]
    image, narrow = dots.images(panels, handles, columns=3, share_x=True)
    text = (
        "Each metric of the second side over the first, with its 95 % interval alone; the line is"
    )
    text += " 1, where nothing differs. The colour is that of p, corrected for all metrics."
    alternative = "Dots with error bars: the ratio of each metric, second over first."
    title, table = "Second over first", _table(groups)
    return Drawn("ratios", title, text, alternative, image, table, narrow=narrow)


def _dot(item: Ratio) -> dots.Dot:
    low_high = (item.interval.low, item.interval.high) if item.interval else None
    name = NAMES.get(item.metric, item.metric)
    return dots.Dot(name, item.ratio, number(item.ratio), _look(_kind(item)), low_high)


def _look(kind: int) -> dict[str, Any]:
    _, colour, marker, filled = _KINDS[kind]
    return {"color": colour, "marker": marker, "markerfacecolor": colour if filled else "white"}


def _heads(first: Side, second: Side) -> Section:
    columns: Cells = ["", Cell("first", look="text"), Cell("second", look="text")]
    told = [_facts(side) for side in (first, second)]
    rows: list[Cells] = [[name, told[0][name], told[1][name]] for name in told[0]]
    return Section("The two results", [grid("The two results", columns, rows)])


def _facts(side: Side) -> dict[str, str]:
    folder, machine = side.folder, side.folder.machine()
    commit = f" at {machine['git_commit']}" if machine.get("git_commit") else ""
    iterations = folder.iterations()
    bad = sum(not item.usable for item in iterations)
    return {
        "result": str(folder.path),
        "run": side.run or "every run of the same name",
        "kind": folder.kind,
        "study file": Path(str(machine.get("study_file", ""))).name,
        "begun": str(machine.get("started_utc", "")),
        "iterations": f"{len(iterations)}, {bad} of them INVALID"
        + ("" if folder.complete() else "; not complete"),
        "software": f"wattio {machine.get('wattio')}{commit}",
        "machine": f"{machine.get('processor') or 'unknown processor'}, {machine.get('kernel')}",
    }


def _table(groups: Groups) -> Table:
    head = ["first_run", "second_run", "phase", "metric", "unit", "estimated", "first", "first_n"]
    table: Table = [[*head, "second", "second_n", "ratio", "low", "high", "p_alone", "p_holm"]]
    table[0] += ["tests", "detectable_share", "test"]
    for item in (item for group in groups for item in group):
        low_high = (item.interval.low, item.interval.high) if item.interval else ("", "")
        told = [item.p_alone, item.p, item.tests, item.detectable_share, item.test]
        row = [item.first_run, item.second_run, item.phase, item.metric, item.unit]
        values = [item.first.mean, item.first.n, item.second.mean, item.second.n, item.ratio]
        table.append(
            [
                *row,
                str(item.estimated).lower(),
                *values,
                *low_high,
                *("" if one is None else one for one in told),
            ]
        )
    return table
