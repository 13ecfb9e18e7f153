"""Power over time: whole sessions, and single iterations closely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from wattio.kinds.measurement.plan import IDLE
from wattio.report import drawing
from wattio.report.drawing import WIDTH, Drawn, Table
from wattio.report.measurement import power
from wattio.report.measurement.figures import called, labelled
from wattio.report.measurement.gather import Measured
from wattio.report.measurement.power import SESSIONS_MAX, Seen
from wattio.report.measurement.samples import SUM, Curve, Looked, Series, Stretch
from wattio.results.runs import Recorded

_SHADES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_PALE = 0.18
_HATCHES = ("", "\\\\", "..", "||", "--", "oo")
_IDLE: dict[str, Any] = {"facecolor": "#e8e8e8", "edgecolor": "#b0b0b0", "hatch": "////"}
_INVALID: dict[str, Any] = {"facecolor": "#F4C7CE", "edgecolor": "#A40E26", "hatch": "xxxx"}
_GAP: dict[str, Any] = {"facecolor": "#000000", "alpha": 0.75}
Moments = TypeVar("Moments", float, Series)

_NARROW = 0.07
"""A phase narrower than this share of a panel has no room for its name."""


def sessions(seen: Seen, found: Measured) -> list[Drawn]:
    """Power over each session, iterations shaded by workload."""
    with drawing.styled():
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
    unit_s, unit = drawing.time_unit(whole[1] - whole[0])
    at = _Time(whole[0], unit_s)
    table: Table = [["meter", "time_s", "power_w_min", "power_w_mean", "power_w_max"]]
    lines: list[drawing.Line] = []
    handles = _curves(axis, 0, looked, at, found, table, lines)
    handles += _iterations(axis, session, at, found)
    handles += _gaps(axis, looked, whole, at)
    drawing.mark_cut(axis)
    axis.set_xlim(0, (whole[1] - whole[0]) / unit_s)
    axis.set_xlabel(f"time since the session's first iteration ({unit})")
    axis.set_ylabel(labelled("power (W)", found))
    drawing.legend(drawn, handles)
    text = f"Iterations are shaded by workload. {_points(looked, 0)}"
    alternative = "Chart of power in watts over a whole session, iterations shaded."
    title = called(f"Power over session {session}", found)
    name = f"session-{session}"
    panels = _panels([axis.get_xlabel()], [lines])
    return Drawn(name, title, text, alternative, drawing.svg(drawn), table, panels)


def _closely(
    name: str, title: str, items: Sequence[Recorded], text: str, seen: Seen, found: Measured
) -> Drawn:
    table: Table = [["run", "meter", "time_s", "power_w_min", "power_w_mean", "power_w_max"]]
    lines: list[list[drawing.Line]] = []
    with drawing.styled():
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
        drawing.legend(drawn, list(handles.values()))
        image = drawing.svg(drawn)
        labels = [axis.get_xlabel() for axis in axes]
    place, looked = seen.iterations[items[0].identity]
    text = f"{text} Phases are shaded. {_points(looked, place)}".strip()
    alternative = "Charts of power in watts over single iterations, phases shaded."
    panels = _panels(labels, lines)
    return Drawn(name, called(title, found), text, alternative, image, table, panels)


def _panels(
    labels: Sequence[str], lines: Sequence[Sequence[drawing.Line]]
) -> tuple[drawing.Panel, ...]:
    """What was drawn, to be looked into: one for each panel that has a curve."""
    pairs = zip(labels, lines, strict=True)
    return tuple(drawing.panel(label, "power (W)", own) for label, own in pairs if own)


def _iteration(
    axis: Axes,
    item: Recorded,
    place: int,
    looked: Looked,
    found: Measured,
    table: Table,
    lines: list[drawing.Line],
) -> list[Any]:
    record = found.records[item.identity]
    start_s, end_s = record.start.monotonic_ns / 1e9, record.end.monotonic_ns / 1e9
    unit_s, unit = drawing.time_unit(end_s - start_s)
    at = _Time(start_s, unit_s)
    handles = _curves(axis, place, looked, at, found, table, lines)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.22 * (high - low))
    for number, phase in enumerate(record.phases):
        start, end = (at(end.monotonic_ns / 1e9) for end in (phase.span.start, phase.span.end))
        shade = _IDLE if phase.span.name == IDLE else _shade(number) | {"hatch": ""}
        axis.axvspan(start, end, linewidth=0, zorder=0.2, **shade)
        if end - start > _NARROW * (end_s - start_s) / unit_s or len(record.phases) < 4:
            axis.text(
                (start + end) / 2,
                0.96,
                phase.span.name,
                transform=axis.get_xaxis_transform(),
                ha="center",
                va="top",
                fontsize=8.5,
            )
    if not item.usable:
        axis.axvspan(0, (end_s - start_s) / unit_s, ymax=0.06, linewidth=0, **_INVALID)
        handles.append(Patch(label="INVALID", **_INVALID))
    handles += _gaps(axis, looked, (start_s, end_s), at)
    again = f", attempt {item.attempt + 1}" if item.attempt else ""
    text = f"{item.run.name}, repetition {item.repetition + 1}{again}"
    axis.set_title(text, fontsize=9.5, loc="left", fontweight="bold")
    drawing.mark_cut(axis)
    axis.set_xlim(0, (end_s - start_s) / unit_s)
    axis.set_xlabel(f"time since the iteration began ({unit})")
    axis.set_ylabel(labelled("power (W)", found))
    return handles


class _Time:
    """Moments in seconds on the axis of a panel."""

    def __init__(self, start_s: float, unit_s: float) -> None:
        self._start_s, self._unit_s = start_s, unit_s

    def __call__(self, time_s: Moments) -> Moments:
        return (time_s - self._start_s) / self._unit_s

    def seconds(self, time_s: Moments) -> Moments:
        """Since the panel's beginning."""
        return time_s - self._start_s


def _curves(
    axis: Axes,
    place: int,
    looked: Looked,
    at: _Time,
    found: Measured,
    table: Table,
    lines: list[drawing.Line],
) -> list[Any]:
    """The power of each meter, and the sum where several are totals."""
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
    for (label, text, estimate), stroke in zip(
        known, drawing.series_strokes(len(known)), strict=True
    ):
        curve = looked.curves[label, place]
        if not len(curve.time_s):
            continue
        style: dict[str, Any] = {"color": stroke.colour, "linestyle": stroke.dashes}
        style["linewidth"] = 1.2
        if len(curve.time_s) < 80:
            style |= {"marker": stroke.marker, "markersize": 3}
        time_s, low, mean, high = _broken(curve, looked.gaps.get(label, []))
        axis.plot(at(time_s), mean, **style)
        lines.append((text, style, at(time_s), mean))
        if curve.binned:
            axis.fill_between(at(time_s), low, high, color=stroke.colour, alpha=0.2, linewidth=0)
        shown = f"{text} (ESTIMATE)" if estimate else text
        handles.append(Line2D([], [], label=shown, **style))
        rows = zip(at.seconds(curve.time_s), curve.low_w, curve.mean_w, curve.high_w, strict=True)
        table += [[label or "sum", *(float(value) for value in row)] for row in rows]
    return handles


def _broken(curve: Curve, gaps: Sequence[Stretch]) -> tuple[Any, Any, Any, Any]:
    """A curve with nothing drawn over gaps."""
    middles = np.array([(start + end) / 2 for start, end in gaps])
    places = np.searchsorted(curve.time_s, middles)
    inner = (places > 0) & (places < len(curve.time_s))
    places, middles = places[inner], middles[inner]
    time_s = np.insert(curve.time_s, places, middles)
    low, mean, high = (
        np.insert(values, places, np.nan) for values in (curve.low_w, curve.mean_w, curve.high_w)
    )
    return time_s, low, mean, high


def _iterations(axis: Axes, session: str, at: _Time, found: Measured) -> list[Any]:
    """Iterations of a session, shaded by workload; INVALID ones marked at the foot."""
    handles: dict[str, Any] = {}
    loads = [part.name for part in found.workloads]
    for item in found.iterations:
        record = found.records[item.identity]
        if record.session != session:
            continue
        start, end = (at(end.monotonic_ns / 1e9) for end in (record.start, record.end))
        load = item.run.subject
        if load == IDLE:
            shade, label = _IDLE, "ready-idle"
        else:
            shade, label = _shade(loads.index(load)), load
        axis.axvspan(start, end, linewidth=0, zorder=0.2, **shade)
        # A thin white line keeps neighbours apart.
        axis.axvline(end, color="white", linewidth=0.8)
        handles.setdefault(label, Patch(label=label, **shade))
        if not item.usable:
            axis.axvspan(start, end, ymax=0.06, linewidth=0, **_INVALID)
            handles.setdefault("INVALID", Patch(label="INVALID", **_INVALID))
    return list(handles.values())


def _shade(number: int) -> dict[str, Any]:
    """The background of a workload or phase: its colour, and a hatch for where there is none."""
    red, green, blue = to_rgb(_SHADES[number % len(_SHADES)])
    # Pale, not transparent, which its hatch would be too.
    pale = tuple(1 - _PALE * (1 - part) for part in (red, green, blue))
    hatch = _HATCHES[number % len(_HATCHES)]
    return {"facecolor": pale, "edgecolor": "#b0b0b0", "hatch": hatch}


def _gaps(axis: Axes, looked: Looked, stretch: Stretch, at: _Time) -> list[Any]:
    """Gaps of each meter, as black strips at the foot above those of INVALID."""
    drawn = False
    for number, gaps in enumerate(looked.gaps.values()):
        for start_s, end_s in gaps:
            if end_s > stretch[0] and start_s < stretch[1]:
                foot = 0.07 + 0.04 * number
                start, end = at(max(start_s, stretch[0])), at(min(end_s, stretch[1]))
                axis.axvspan(start, end, ymin=foot, ymax=foot + 0.03, linewidth=0.8, **_GAP)
                drawn = True
    return [Patch(label="no sample", **_GAP)] if drawn else []


def _points(looked: Looked, place: int) -> str:
    binned = any(curve.binned for (_, number), curve in looked.curves.items() if number == place)
    text = "Each point is the mean over a short time, the band from the least to the most sample."
    return f"{text if binned else 'Each point is a sample.'} The axis does not begin at zero."
