"""Grouped bars with 95 % intervals, and the numbers that a document's text gives on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from wattio.analysis.statistics import Interval
from wattio.report import plots
from wattio.report.plots import WIDTH, Table

PUBLISHED_STYLE: dict[str, Any] = {
    "color": "#000000",
    "marker": "D",
    "markerfacecolor": "#F0E442",
    "markersize": 7,
    "linestyle": "none",
    "label": "number in the document's text",
}
"""How a number of the document's text is marked."""

MISSED_STYLE: dict[str, Any] = {
    "color": "#A40E26",
    "marker": "x",
    "markersize": 6,
    "markeredgewidth": 1.8,
    "linestyle": "none",
    "label": "background work left undone",
}
"""How a bar is marked that leaves background work undone."""

BOUND_STYLE: dict[str, Any] = {
    "color": "#D55E00",
    "linewidth": 1.2,
    "linestyle": ":",
    "label": "bound, 1 + plf",
}


@dataclass(frozen=True)
class Series:
    """One bar in each group; a value that is not known is None."""

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


@dataclass(frozen=True)
class Bars:
    """Panels above each other over the same groups.

    Bars begin at `base`: 0, or 1 for ratios, so that up is more and down is less. `absent` stands
    where a value is None; the table calls the bars of a group as `kind` says.
    """

    groups: Sequence[str]
    panels: Sequence[Panel]
    across: str
    base: float = 0.0
    absent: str = "not run"
    kind: str = "series"

    def draw(self) -> bytes:
        """The figure as SVG."""
        with plots.styled():
            figure, axes = plots.figure(WIDTH, 0.6 + 2.5 * len(self.panels), len(self.panels))
            for axis, panel in zip(axes, self.panels, strict=True):
                self._panel(axis, panel)
            axes[-1].set_xticks(range(len(self.groups)), self.groups)
            axes[-1].set_xlabel(self.across)
            handles = self._handles()
            figure.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=2)
            return plots.svg(figure)

    def table(self) -> Table:
        """What is drawn, one row for each bar; an absent value is empty."""
        rows: Table = [[self.across, self.kind, "quantity", "mean", "low", "high", "floor_missed"]]
        for panel in self.panels:
            for place, name in enumerate(self.groups):
                group = name.replace("\n", " ")
                for series in panel.series:
                    value = series.values[place]
                    missed = "" if value is None else str(series.missed(place)).lower()
                    rows.append([group, series.label, panel.quantity, *ends(value), missed])
                for mark in panel.marks:
                    if mark.group == place:
                        label = f"published, {mark.series or 'text'}"
                        rows.append([group, label, panel.quantity, mark.value, "", "", ""])
        return rows

    def _handles(self) -> list[Patch | Line2D]:
        handles: list[Patch | Line2D] = [
            Patch(facecolor=s.colour, hatch=s.hatch, edgecolor="#333333", label=s.label)
            for s in self.panels[0].series
        ]
        if any(panel.bound is not None for panel in self.panels):
            handles.append(Line2D([], [], **BOUND_STYLE))
        if any(any(series.floor_missed) for panel in self.panels for series in panel.series):
            handles.append(Line2D([], [], **MISSED_STYLE))
        if any(panel.marks for panel in self.panels):
            handles.append(Line2D([], [], **PUBLISHED_STYLE))
        return handles

    def _panel(self, axis: Axes, panel: Panel) -> None:
        width = 0.84 / len(panel.series)
        places = {}
        for index, series in enumerate(panel.series):
            shift = (index - (len(panel.series) - 1) / 2) * width
            places[series.label] = shift
            for place, value in enumerate(series.values):
                if value is None:
                    at = place + shift
                    axis.text(at, self.base, self.absent, rotation=90, fontsize=7, ha="center")
                    continue
                self._bar(axis, place + shift, width, value, series)
                if series.missed(place):
                    axis.plot([place + shift], [value.high], zorder=6, **MISSED_STYLE)
        for mark in panel.marks:
            at = mark.group + (places.get(mark.series, 0.0) if mark.series else 0.0)
            axis.plot([at], [mark.value], zorder=5, **PUBLISHED_STYLE)
        if panel.bound is not None:
            axis.axhline(panel.bound, **BOUND_STYLE)
        axis.set_xlim(-0.5, len(self.groups) - 0.5)
        axis.grid(axis="x", visible=False)
        if self.base:
            axis.axhline(self.base, color="#000000", linewidth=1)
            axis.margins(y=0.12)
            axis.set_ylabel(f"{panel.quantity},\nrelative to native")
        else:
            axis.set_ylim(bottom=0)
            axis.set_ylabel(panel.quantity)

    def _bar(self, axis: Axes, at: float, width: float, value: Interval, series: Series) -> None:
        axis.bar(
            at,
            value.estimate - self.base,
            width * 0.92,
            bottom=self.base,
            color=series.colour,
            hatch=series.hatch,
            edgecolor="#333333",
            linewidth=0.6,
        )
        axis.errorbar(at, value.estimate, reach([value]), color="#000000", capsize=2, linewidth=0.9)


def reach(values: Sequence[Interval]) -> list[list[float]]:
    """How far the ends of intervals are from their estimates, as error bars take it."""
    return [
        [max(0.0, value.estimate - value.low) for value in values],
        [max(0.0, value.high - value.estimate) for value in values],
    ]


def ends(value: Interval | None) -> list[float | str]:
    """An interval as three cells of a table: estimate, low and high, empty for None."""
    return ["", "", ""] if value is None else [value.estimate, value.low, value.high]
