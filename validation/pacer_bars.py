"""Grouped bars of ratios to native, with error bars over the seeds and the document's own numbers.

Bars begin at 1, which is native: up is more than native, down is less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from wattio.analysis.statistics import Interval
from wattio.report import drawing
from wattio.report.drawing import WIDTH, Table

PUBLISHED_STYLE: dict[str, Any] = {
    "color": "#000000",
    "marker": "D",
    "markerfacecolor": "#F0E442",
    "markersize": 7,
    "linestyle": "none",
}
"""How a number of the document's text is marked."""

MISSED_STYLE: dict[str, Any] = {
    "color": "#A40E26",
    "marker": "x",
    "markersize": 6,
    "markeredgewidth": 1.8,
    "linestyle": "none",
}
"""How a bar is marked that leaves background work undone."""


@dataclass(frozen=True)
class Series:
    """One bar in each group; a value that was not run is None."""

    label: str
    colour: str
    hatch: str
    values: Sequence[Interval | None]
    floor_missed: Sequence[bool] = ()
    """Whether too little background work was done beside each value; empty: beside none."""

    def missed(self, place: int) -> bool:
        """Whether it was beside the value at a place."""
        return any(self.floor_missed[place : place + 1])


@dataclass(frozen=True)
class Mark:
    """A number from the document's text at a bar, or at the middle of a group."""

    group: int
    value: float
    series: str | None = None


@dataclass(frozen=True)
class Panel:
    """One chart: what its axis says, its series, lines to compare with, and published marks."""

    quantity: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    bound: float | None = None


def draw(groups: Sequence[str], panels: Sequence[Panel], across: str) -> bytes:
    """Panels above each other over the same groups, as SVG."""
    with drawing.styled():
        figure, axes = drawing.figure(WIDTH, 0.6 + 2.6 * len(panels), len(panels))
        for axis, panel in zip(axes, panels, strict=True):
            _panel(axis, groups, panel)
        axes[-1].set_xticks(range(len(groups)), groups)
        axes[-1].set_xlabel(across)
        handles: list[Patch | Line2D] = [
            Patch(facecolor=s.colour, hatch=s.hatch, edgecolor="#333333", label=s.label)
            for s in panels[0].series
        ]
        if any(panel.bound is not None for panel in panels):
            handles.append(Line2D([], [], color="#D55E00", linestyle=":", label="bound, 1 + plf"))
        if any(any(series.floor_missed) for panel in panels for series in panel.series):
            label = "background work left undone"
            handles.append(Line2D([], [], label=label, **MISSED_STYLE))
        if any(panel.marks for panel in panels):
            label = "number in the document's text"
            handles.append(Line2D([], [], label=label, **PUBLISHED_STYLE))
        figure.legend(handles=handles, loc="outside upper left", ncols=4, handlelength=2)
        return drawing.svg(figure)


def table(groups: Sequence[str], panels: Sequence[Panel], across: str) -> Table:
    """What is drawn, one row for each bar; an absent value is empty."""
    rows: Table = [[across, "policy", "quantity", "mean", "low", "high", "floor_missed"]]
    for panel in panels:
        for place, group in enumerate(groups):
            for series in panel.series:
                value = series.values[place]
                numbers = ["", "", ""] if value is None else _numbers(value)
                missed = "" if value is None else str(series.missed(place)).lower()
                rows.append([group, series.label, panel.quantity, *numbers, missed])
            for mark in panel.marks:
                if mark.group == place:
                    label = f"published, {mark.series or 'text'}"
                    rows.append([group, label, panel.quantity, mark.value, "", "", ""])
    return rows


def _numbers(value: Interval) -> list[float]:
    return [value.estimate, value.low, value.high]


def _panel(axis: Axes, groups: Sequence[str], panel: Panel) -> None:
    width = 0.84 / len(panel.series)
    places = {}
    for index, series in enumerate(panel.series):
        shift = (index - (len(panel.series) - 1) / 2) * width
        places[series.label] = shift
        for place, value in enumerate(series.values):
            if value is not None:
                _bar(axis, place + shift, width, value, series)
                if series.missed(place):
                    axis.plot([place + shift], [value.high], zorder=6, **MISSED_STYLE)
            else:
                axis.text(place + shift, 1, "not run", rotation=90, fontsize=7, ha="center")
    for mark in panel.marks:
        shift = places.get(mark.series, 0.0) if mark.series else 0.0
        axis.plot([mark.group + shift], [mark.value], zorder=5, **PUBLISHED_STYLE)
    axis.axhline(1, color="#000000", linewidth=1)
    if panel.bound is not None:
        axis.axhline(panel.bound, color="#D55E00", linewidth=1.2, linestyle=":")
    axis.set_xlim(-0.5, len(groups) - 0.5)
    axis.margins(y=0.12)
    axis.grid(axis="x", visible=False)
    axis.set_ylabel(f"{panel.quantity},\nrelative to native")


def _bar(axis: Axes, place: float, width: float, value: Interval, series: Series) -> None:
    axis.bar(
        place,
        value.estimate - 1,
        width * 0.92,
        bottom=1,
        color=series.colour,
        hatch=series.hatch,
        edgecolor="#333333",
        linewidth=0.6,
    )
    low, high = value.estimate - value.low, value.high - value.estimate
    reach = [[max(0.0, low)], [max(0.0, high)]]
    axis.errorbar(place, value.estimate, reach, color="#000000", capsize=2, linewidth=0.9)
