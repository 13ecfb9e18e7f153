"""The figure of energy over the processor's frequency: a row of panels for each phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wattio.analysis import statistics
from wattio.report import plots
from wattio.report.measurement.figures import called, labelled
from wattio.report.measurement.gather import Measured
from wattio.report.measurement.over_frequency import (
    EACH,
    ENERGY,
    KNOBS,
    QUANTITIES,
    TIME,
    Course,
    Track,
)
from wattio.report.plots import WIDTH, Drawn, Stroke, Table

_BEST: dict[str, Any] = {"markersize": 12, "markeredgecolor": "#000000", "markeredgewidth": 1.6}
_LEVEL: dict[str, Any] = {"markersize": 11, "markeredgecolor": "#888888", "markeredgewidth": 1.0}
_RING: dict[str, Any] = {"marker": "o", "linestyle": "none", "markerfacecolor": "none"}


def of_workload(courses: Sequence[Course], found: Measured) -> Drawn:
    """Energy, energy for the work, and time over frequency, with 95 % intervals."""
    image, narrow = plots.images(lambda width: _figure(courses, found, width))
    counts = sorted({point.row.used for c in courses for t in c.tracks for point in t.points})
    several = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    text = f"Means over usable iterations, {several}"
    if counts[-1] > 1:
        text += (
            "; bars are 95 % intervals of the mean (Student's t). A black ring is the least of a"
        )
        text += " series, grey rings are what cannot be told apart from it (Welch's t, p corrected"
        text += " for all pairs); energy and time are ringed for equal work only."
    else:
        text += ": one repetition does not tell how much is noise, so no best is marked."
    alternative = "Charts of energy, energy for the work and time over processor frequency."
    title = called(f"{courses[0].part}: energy over frequency", found)
    table = _table(courses)
    return Drawn("frequency", title, text, alternative, image, table, narrow=narrow)


def _figure(courses: Sequence[Course], found: Measured, width: float) -> Figure:
    columns = len(QUANTITIES) if width == WIDTH else 1
    lines = len(courses) * len(QUANTITIES) // columns
    drawn = Figure(figsize=(width, 0.6 + 2.4 * lines), layout="constrained")
    axes = list(drawn.subplots(lines, columns, squeeze=False).flat)
    pairs = [(course, quantity) for course in courses for quantity in QUANTITIES]
    strokes = _strokes(courses)
    for axis, (course, quantity) in zip(axes, pairs, strict=True):
        for track in course.tracks:
            _track(axis, course, track, quantity, strokes[track.label])
        axis.set_ylim(0, 1.06 * axis.get_ylim()[1])
        axis.set_ylabel(_label(course, quantity, found))
        axis.set_xlabel(f"frequency, {KNOBS[course.knob]} (GHz)")
        if quantity == QUANTITIES[0] or columns == 1:
            axis.set_title(course.phase, fontsize=9.5, loc="left", fontweight="bold")
    plots.legend(drawn, _handles(courses), width)
    return drawn


def _label(course: Course, quantity: str, found: Measured) -> str:
    if quantity == TIME:
        return "time (s)"
    text = "energy (J)" if quantity == ENERGY else f"energy per {course.each} (J)"
    return labelled(text, found)


def _strokes(courses: Sequence[Course]) -> dict[str, Stroke]:
    """One look for each series, the same in all panels."""
    labels = list(dict.fromkeys(track.label for course in courses for track in course.tracks))
    return dict(zip(labels, plots.series_strokes(len(labels)), strict=True))


def _track(axis: Axes, course: Course, track: Track, quantity: str, stroke: Stroke) -> None:
    points = [point for point in track.points if point.values.get(quantity)]
    if not points:
        return
    means, reaches = [], []
    for point in points:
        values = point.values[quantity]
        ends = statistics.mean_interval(values)
        means.append(sum(values) / len(values))
        reaches.append(0.0 if ends is None else ends.high - ends.estimate)
    axis.errorbar(
        [point.asked_hz / 1e9 for point in points],
        means,
        yerr=reaches if any(reaches) else None,
        color=stroke.colour,
        linestyle=stroke.dashes,
        linewidth=stroke.width,
        marker=stroke.marker,
        markersize=5,
        capsize=3,
        elinewidth=1.0,
    )
    leaders = course.best(track, quantity)
    for point, mean in zip(points, means, strict=True):
        if point.name in leaders:
            look = _BEST if point.name == leaders[0] else _LEVEL
            axis.plot([point.asked_hz / 1e9], [mean], **_RING, **look)


def _handles(courses: Sequence[Course]) -> list[Line2D]:
    handles = []
    for label, stroke in _strokes(courses).items():
        look: dict[str, Any] = {"color": stroke.colour, "linestyle": stroke.dashes}
        look |= {"linewidth": stroke.width, "marker": stroke.marker}
        handles.append(Line2D([], [], label=label, **look))
    leaders = [
        course.best(track, quantity)
        for course in courses
        for track in course.tracks
        for quantity in QUANTITIES
    ]
    if any(leaders):
        handles.append(Line2D([], [], label="the least", **_RING, **_BEST))
    if any(len(names) > 1 for names in leaders):
        handles.append(Line2D([], [], label="not to be told apart from it", **_RING, **_LEVEL))
    return handles


def _table(courses: Sequence[Course]) -> Table:
    head = ["phase", "run", "frequency_hz", "ran_hz", "quantity", "unit"]
    table: Table = [[*head, "n", "mean", "low", "high", "standing"]]
    for course in courses:
        units = {ENERGY: "J", EACH: f"J per {course.each}", TIME: "s"}
        for track in course.tracks:
            for quantity in QUANTITIES:
                leaders = course.best(track, quantity)
                for point in track.points:
                    values = point.values.get(quantity)
                    if not values:
                        continue
                    ends = statistics.mean_interval(values)
                    low, high = (ends.low, ends.high) if ends else ("", "")
                    place = leaders.index(point.name) if point.name in leaders else None
                    standing = "" if place is None else "level" if place else "least"
                    ran = "" if point.ran_hz is None else point.ran_hz
                    name = point.row.run.name
                    own = [course.phase, name, point.asked_hz, ran, quantity, units[quantity]]
                    mean = sum(values) / len(values)
                    table.append([*own, len(values), mean, low, high, standing])
    return table
