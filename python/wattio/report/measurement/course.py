"""Power over time: whole sessions, and single iterations closely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from wattio.kinds.measurement.record import Record
from wattio.kinds.measurement.schema import IDLE
from wattio.report import plots
from wattio.report.measurement import nodes, power
from wattio.report.measurement.bands import (
    IDLE_LOOK,
    INVALID_LOOK,
    INVALID_TOP,
    Moment,
    band,
    broken,
    gaps_shown,
    invalid_band,
    phase_bands,
    points_text,
    separate,
    shade,
    shade_phases,
    shade_strips,
)
from wattio.report.measurement.figures import called, labelled
from wattio.report.measurement.gather import Measured
from wattio.report.measurement.power import SESSIONS_MAX, Seen
from wattio.report.measurement.samples import SUM, Looked, Stretch
from wattio.report.plots import WIDTH, Band, Drawn, Table
from wattio.results.runs import Recorded

SHADED_MOST = 500
"""More iterations of a session are narrower than a line in its figure."""


def sessions(seen: Seen, found: Measured) -> list[Drawn]:
    """Power over each session, iterations shaded by workload."""
    with plots.styled():
        return [
            _session(session, whole, looked, found)
            for session, whole, looked in seen.sessions[:SESSIONS_MAX]
        ]


def of_workload(name: str, seen: Seen, found: Measured) -> Drawn | None:
    """An iteration of a workload on each system, its phases shaded."""
    items = [item for item in power.chosen(found) if item.run.subject == name]
    if not items:
        return None
    text = "One usable iteration on each system."
    return _closely("course", "Power over an iteration", items, text, seen, found)


def of_invalid(seen: Seen, found: Measured) -> Drawn | None:
    """The first INVALID iterations."""
    items = power.invalid(found)
    if not items:
        return None
    count = sum(not item.usable for item in found.iterations)
    text = f"{len(items)} of {count} INVALID iterations." if count > len(items) else ""
    return _closely("invalid", "INVALID iterations", items, text, seen, found)


def _session(session: str, whole: Stretch, looked: Looked, found: Measured) -> Drawn:
    drawn = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axis = drawn.subplots()
    unit_s, unit = plots.time_unit(whole[1] - whole[0])
    at = Moment(whole[0], unit_s)
    table: Table = [["meter", "time_s", "power_w_min", "power_w_mean", "power_w_max"]]
    lines: list[plots.Line] = []
    handles = _curves(axis, 0, looked, at, found, table, lines)
    shaded, bands = _iterations(axis, session, at, found)
    handles += shaded
    handles += gaps_shown(axis, looked, whole, at)
    plots.mark_cut(axis)
    axis.set_xlim(0, (whole[1] - whole[0]) / unit_s)
    axis.set_xlabel(f"time since the session's first iteration ({unit})")
    axis.set_ylabel(labelled("power (W)", found))
    plots.legend(drawn, handles)
    count = len(_of_session(session, found))
    text = "Iterations are shaded by workload."
    if count > SHADED_MOST:
        text = f"Its {count:,} iterations are too many to be shaded."
    text = f"{text} {points_text(looked, 0)}"
    alternative = "Chart of power in watts over a whole session, iterations shaded."
    title = called(f"Power over session {session}", found)
    name = f"session-{session}"
    panels = _panels([axis.get_xlabel()], [lines], [bands])
    return Drawn(name, title, text, alternative, plots.svg(drawn), table, panels)


def _closely(
    name: str, title: str, items: Sequence[Recorded], text: str, seen: Seen, found: Measured
) -> Drawn:
    table: Table = [["run", "meter", "time_s", "power_w_min", "power_w_mean", "power_w_max"]]
    lines: list[list[plots.Line]] = []
    bands: list[list[Band]] = []
    with plots.styled():
        drawn = Figure(figsize=(WIDTH, 0.5 + 2.4 * len(items)), layout="constrained")
        axes = drawn.subplots(len(items), 1, squeeze=False)[:, 0]
        handles: dict[str, Any] = {}
        for axis, item in zip(axes, items, strict=True):
            place, looked = seen.iterations[item.identity]
            own: Table = []
            lines.append([])
            for handle in _iteration(axis, item, place, looked, found, own, lines[-1]):
                handles.setdefault(str(handle.get_label()), handle)
            table += [[item.run.name, *row] for row in own]
            bands.append(_bands(item, found.records[item.identity]))
        plots.legend(drawn, list(handles.values()))
        image = plots.svg(drawn)
        labels = [axis.get_xlabel() for axis in axes]
    place, looked = seen.iterations[items[0].identity]
    text = f"{text} Phases are shaded. {points_text(looked, place)}".strip()
    alternative = "Charts of power in watts over single iterations, phases shaded."
    panels = _panels(labels, lines, bands)
    return Drawn(name, called(title, found), text, alternative, image, table, panels)


def _panels(
    labels: Sequence[str],
    lines: Sequence[Sequence[plots.Line]],
    bands: Sequence[Sequence[Band]],
) -> tuple[plots.Panel, ...]:
    """What was drawn, to be looked into: one for each panel that has a curve."""
    return tuple(
        plots.panel(label, "power (W)", own, bands=behind)
        for label, own, behind in zip(labels, lines, bands, strict=True)
        if own
    )


def _bands(item: Recorded, record: Record) -> list[Band]:
    """What is shaded behind an iteration: its phases, and that it is INVALID."""
    start_s, end_s = record.start.monotonic_ns / 1e9, record.end.monotonic_ns / 1e9
    at = Moment(start_s, plots.time_unit(end_s - start_s)[0])
    found = phase_bands(record, at)
    return found if item.usable else [*found, invalid_band([(0.0, at(end_s))])]


def _iteration(
    axis: Axes,
    item: Recorded,
    place: int,
    looked: Looked,
    found: Measured,
    table: Table,
    lines: list[plots.Line],
) -> list[Any]:
    record = found.records[item.identity]
    start_s, end_s = record.start.monotonic_ns / 1e9, record.end.monotonic_ns / 1e9
    unit_s, unit = plots.time_unit(end_s - start_s)
    at = Moment(start_s, unit_s)
    handles = _curves(axis, place, looked, at, found, table, lines)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.22 * (high - low))
    shade_phases(axis, record, at)
    if not item.usable:
        axis.axvspan(0, (end_s - start_s) / unit_s, ymax=INVALID_TOP, linewidth=0, **INVALID_LOOK)
        handles.append(Patch(label="INVALID", **INVALID_LOOK))
    handles += gaps_shown(axis, looked, (start_s, end_s), at)
    again = f", attempt {item.attempt + 1}" if item.attempt else ""
    text = f"{item.run.name}, repetition {item.repetition + 1}{again}"
    axis.set_title(text, fontsize=9.5, loc="left", fontweight="bold")
    plots.mark_cut(axis)
    axis.set_xlim(0, (end_s - start_s) / unit_s)
    axis.set_xlabel(f"time since the iteration began ({unit})")
    axis.set_ylabel(labelled("power (W)", found))
    return handles


def _curves(
    axis: Axes,
    place: int,
    looked: Looked,
    at: Moment,
    found: Measured,
    table: Table,
    lines: list[plots.Line],
) -> list[Any]:
    """The power of each meter, and the sum where several are totals.

    Meters of single nodes have a figure of their own, and are left out where others are left.
    """
    handles: list[Any] = []
    named = [(SUM, "sum of the totals", found.estimated)]
    named += [
        (
            entry.shown,
            entry.shown + ("" if entry.role == "total" else ", beside"),
            found.is_estimate(entry),
        )
        for entry in found.study.meter
    ]
    known = [one for one in named if (one[0], place) in looked.curves]
    own = {node.label for node in nodes.of_study(found)}
    known = [one for one in known if one[0] not in own] or known
    for (label, text, estimate), stroke in zip(
        known, plots.series_strokes(len(known)), strict=True
    ):
        curve = looked.curves[label, place]
        if not len(curve.time_s):
            continue
        style: dict[str, Any] = {"color": stroke.colour, "linestyle": stroke.dashes}
        style["linewidth"] = 1.2
        if len(curve.time_s) < 80:
            style |= {"marker": stroke.marker, "markersize": 3}
        time_s, low, mean, high = broken(curve, looked.gaps.get(label, []))
        axis.plot(at(time_s), mean, **style)
        lines.append((text, style, at(time_s), mean))
        if curve.binned:
            axis.fill_between(at(time_s), low, high, color=stroke.colour, alpha=0.2, linewidth=0)
        shown = f"{text} (ESTIMATE)" if estimate else text
        handles.append(Line2D([], [], label=shown, **style))
        rows = zip(at.seconds(curve.time_s), curve.low_w, curve.mean_w, curve.high_w, strict=True)
        table += [[label or "sum", *(float(value) for value in row)] for row in rows]
    return handles


def _iterations(
    axis: Axes, session: str, at: Moment, found: Measured
) -> tuple[list[Any], list[Band]]:
    """Iterations of a session, shaded by workload; INVALID ones marked at the foot."""
    strips: dict[str, list[Stretch]] = {}
    looks: dict[str, dict[str, Any]] = {}
    loads = [part.name for part in found.workloads]
    for item in _of_session(session, found):
        record = found.records[item.identity]
        strip = at(record.start.monotonic_ns / 1e9), at(record.end.monotonic_ns / 1e9)
        idle = item.run.subject == IDLE
        label = "ready-idle" if idle else item.run.subject
        looks[label] = IDLE_LOOK if idle else shade(loads.index(label))
        strips.setdefault(label, []).append(strip)
        if not item.usable:
            looks["INVALID"] = INVALID_LOOK
            strips.setdefault("INVALID", []).append(strip)
    bad = strips.pop("INVALID", [])
    shaded, bands = strips, [invalid_band(bad)] if bad else []
    if sum(map(len, shaded.values())) <= SHADED_MOST:
        for label, own in shaded.items():
            shade_strips(axis, own, zorder=0.2, **looks[label])
            bands.append(band(label, loads.index(label) if label in loads else None, own))
        separate(axis, [end for own in shaded.values() for _, end in own])
    else:
        looks = {key: look for key, look in looks.items() if key == "INVALID"}
    shade_strips(axis, bad, top=INVALID_TOP, zorder=0.9, **INVALID_LOOK)
    return [Patch(label=label, **look) for label, look in looks.items()], bands


def _of_session(session: str, found: Measured) -> list[Recorded]:
    return [
        one
        for one in found.iterations
        if (record := found.records.get(one.identity)) is not None and record.session == session
    ]
