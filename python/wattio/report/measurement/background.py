"""Background work of targets over a step: what is due and not done, and what is written.

From the answers that are kept of a step; nothing is drawn where there are only those of its ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from wattio.errors import ResultError
from wattio.kinds.measurement import system_status, target_status
from wattio.kinds.measurement.system_status import Answer
from wattio.report import plots
from wattio.report.measurement.gather import Measured
from wattio.report.plots import WIDTH, Drawn, Stroke, Table

Series = NDArray[np.float64]

LEAST = 5
"""Fewer answers than this are no course."""

SPAN_S = 5.0
"""Over which what is written is told: a moment's is all or nothing, as segments are collected."""

PANELS_MAX = 9
"""Most panels of a figure; all of them are in its CSV file."""


@dataclass(frozen=True)
class Course:
    """A system over a step: seconds since its beginning, backlog, and write amplification."""

    system: str
    time_s: Series
    backlog_core_s: Series
    amplification: Series


@dataclass(frozen=True)
class Group:
    """Systems that are alike but for their law: what they share of their names, and by the rest."""

    title: str
    courses: Mapping[str, Course]


def course(system: str, answers: Sequence[Answer], span_s: float = SPAN_S) -> Course:
    """What answers tell, answer by answer; NaN where one does not, and in the first `span_s`."""
    start_ns = answers[0].at.monotonic_ns
    time_s = np.array([(one.at.monotonic_ns - start_ns) / 1e9 for one in answers])
    backlog = [target_status.backlog_core_s(one.status) for one in answers]
    written: list[float | None] = []
    for place, at_s in enumerate(time_s):
        # The last answer that is a span before this one.
        before = int(np.searchsorted(time_s, at_s - span_s, side="right")) - 1
        written.append(
            target_status.amplification(answers[before].status, answers[place].status)
            if before >= 0
            else None
        )
    return Course(system, time_s, _filled(backlog), _filled(written))


def _filled(values: Sequence[float | None]) -> Series:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def courses(subject: str, step: str, found: Measured) -> Iterator[Course]:
    """The first usable iteration of each system, in the order of the study."""
    for entry in found.study.system:
        for item in found.last:
            if item.run.subject != subject or item.run.system != entry.name or not item.usable:
                continue
            try:
                given = system_status.read(found.folder.raw(item.identity), step)
            except ResultError:
                continue
            if len(given) >= LEAST:
                yield course(entry.name, given)
                break


def grouped(names: Sequence[Sequence[str]], own: Mapping[str, Course]) -> list[Group]:
    """Groups with a course. A name's rest is the same in all groups, whichever have one."""
    found = []
    for group in names:
        common = _common(group)
        kept = {name.removeprefix(common): own[name] for name in group if name in own}
        if kept:
            found.append(Group(common.rstrip("-") or "all", kept))
    return found


def drawn(subject: str, step: str, names: Sequence[Sequence[str]], found: Measured) -> Drawn | None:
    """Systems that are alike but for their law in one panel; None if none has a course."""
    groups = grouped(names, {one.system: one for one in courses(subject, step, found)})
    if not groups:
        return None
    table: Table = [["system", "time_s", "backlog_core_s_estimated", "write_amplification"]]
    for one in _each(groups):
        for values in zip(one.time_s, one.backlog_core_s, one.amplification, strict=True):
            table.append([one.system, *("" if np.isnan(v) else float(v) for v in values)])
    image, narrow = plots.images(lambda width: _figure(groups[:PANELS_MAX], width))
    text = "One usable iteration of each. Above: work of all classes that is due and not done, by"
    text += " the target's own ESTIMATE. Below: blocks written to the device for each block that"
    text += f" clients wrote, over the {SPAN_S:g} s before."
    title = f"Background work: {step}"
    alternative = "Curves over time of background work that is due, and of write amplification."
    return Drawn(f"background-{step}", title, text, alternative, image, table, narrow=narrow)


def _each(groups: Sequence[Group]) -> Iterator[Course]:
    for group in groups:
        yield from group.courses.values()


def _figure(groups: Sequence[Group], width: float) -> Figure:
    """Backlog above what is written: a column for each group, or one for all if it is narrow."""
    count, stacked = len(groups), width < WIDTH
    shape = (2 * count, 1) if stacked else (2, count)
    figure = Figure(figsize=(width, 0.6 + 1.9 * shape[0]), layout="constrained")
    axes = figure.subplots(*shape, squeeze=False)
    labels = list(dict.fromkeys(label for group in groups for label in group.courses))
    strokes = dict(zip(labels, plots.series_strokes(len(labels)), strict=True))
    unit_s, unit = plots.time_unit(max(float(one.time_s[-1]) for one in _each(groups)))
    tops = [_top(groups, "backlog_core_s"), _top(groups, "amplification")]
    for number, group in enumerate(groups):
        pair = [axes[2 * number + at][0] if stacked else axes[at][number] for at in (0, 1)]
        _group(pair, group, strokes, unit_s)
        for axis, top in zip(pair, tops, strict=True):
            axis.set_ylim(0, top)
            axis.set_xlim(0, None)
        pair[1].set_xlabel(f"time ({unit})")
        if stacked or number == 0:
            pair[0].set_ylabel("due (core-s)\nESTIMATE")
            pair[1].set_ylabel("write\namplification")
    handles = [Line2D([], [], label=label, **_style(strokes[label])) for label in labels]
    plots.legend(figure, handles, width)
    return figure


def _group(
    pair: Sequence[Axes], group: Group, strokes: Mapping[str, Stroke], unit_s: float
) -> None:
    for label, one in group.courses.items():
        for axis, values in zip(pair, (one.backlog_core_s, one.amplification), strict=True):
            axis.plot(one.time_s / unit_s, values, **_style(strokes[label]))
    pair[0].set_title(group.title, fontsize=9.5, loc="left", fontweight="bold")


def _style(stroke: Stroke) -> dict[str, Any]:
    return {"color": stroke.colour, "linestyle": stroke.dashes, "linewidth": stroke.width}


def _top(groups: Sequence[Group], name: str) -> float:
    """One scale for all, so that they can be compared."""
    every = np.concatenate([getattr(one, name) for one in _each(groups)])
    known = every[np.isfinite(every)]
    return 1.08 * float(known.max()) if known.size and known.max() > 0 else 1.0


def _common(names: Sequence[str]) -> str:
    """What names begin with, up to a dash: that in which they differ is left."""
    first, last = min(names), max(names)
    same = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
        min(len(first), len(last)),
    )
    return first[: first.rfind("-", 0, same) + 1]
