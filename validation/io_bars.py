"""Grouped bars from zero with 95 % intervals, and the numbers of the document's text on them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from pacer_bars import PUBLISHED_STYLE, Panel, Series, table
from wattio.report import drawing
from wattio.report.drawing import WIDTH, Drawn

LOOKS = (("#0072B2", ""), ("#E69F00", "////"), ("#009E73", "...."), ("#CC79A7", "xxxx"))
"""Colour and hatch of the series of a figure, in their order."""


def look(place: int) -> tuple[str, str]:
    """Colour and hatch of a series."""
    return LOOKS[place % len(LOOKS)]


def draw(
    name: str, title: str, caption: str, groups: Sequence[str], panels: Sequence[Panel]
) -> Drawn:
    """A figure of panels above each other over the same groups."""
    across = "I/O approach"
    with drawing.styled():
        figure, axes = drawing.figure(WIDTH, 0.6 + 2.3 * len(panels), len(panels))
        for axis, panel in zip(axes, panels, strict=True):
            _panel(axis, panel)
        axes[-1].set_xticks(range(len(groups)), groups)
        axes[-1].set_xlabel(across)
        handles: list[Patch | Line2D] = [
            Patch(facecolor=s.colour, hatch=s.hatch, edgecolor="#333333", label=s.label)
            for s in panels[0].series
        ]
        if any(panel.marks for panel in panels):
            label = "published in the text"
            handles.append(Line2D([], [], label=label, **PUBLISHED_STYLE))
        figure.legend(handles=handles, loc="outside upper left", ncols=4, handlelength=2)
        image = drawing.svg(figure)
    quantities = " and ".join(panel.quantity for panel in panels)
    rows = table(groups, panels, across)
    rows[0][1] = "series"
    return Drawn(name, title, caption, f"Bars of {quantities} by approach.", image, rows)


def _panel(axis: Axes, panel: Panel) -> None:
    width = 0.84 / len(panel.series)
    groups = len(panel.series[0].values)
    for index, series in enumerate(panel.series):
        shift = (index - (len(panel.series) - 1) / 2) * width
        _bars(axis, series, shift, width)
        for mark in panel.marks:
            if mark.series == series.label:
                axis.plot([mark.group + shift], [mark.value], zorder=5, **PUBLISHED_STYLE)
    axis.set_xlim(-0.5, groups - 0.5)
    axis.set_ylim(bottom=0)
    axis.grid(axis="x", visible=False)
    axis.set_ylabel(panel.quantity)


def _bars(axis: Axes, series: Series, shift: float, width: float) -> None:
    for place, value in enumerate(series.values):
        if value is None:
            axis.text(place + shift, 0, "not modelled", rotation=90, fontsize=7, ha="center")
            continue
        axis.bar(
            place + shift,
            value.estimate,
            width * 0.92,
            color=series.colour,
            hatch=series.hatch,
            edgecolor="#333333",
            linewidth=0.6,
        )
        reach = [[value.estimate - value.low], [value.high - value.estimate]]
        axis.errorbar(
            place + shift, value.estimate, reach, color="#000000", capsize=2, linewidth=0.9
        )
