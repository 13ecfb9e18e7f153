"""Ratios as dots with intervals, below each other: how rankings and comparisons are drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wattio.report import plots
from wattio.report.plots import NARROW_LETTERS, WIDTH

_WIDE = 50.0


@dataclass(frozen=True)
class Dot:
    """A ratio with its name, its look, what stands at its right, and its interval's ends."""

    name: str
    ratio: float
    text: str
    look: dict[str, Any]
    ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """Ratios that belong together, below a title, over an axis with a label."""

    title: str
    shown: Sequence[Dot]
    x_label: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether most of it would lie on the line at 1 of a linear axis."""
        ends = [end for one in self.shown for end in (one.ratio, *(one.ends or ()))]
        return bool(ends) and min(ends) > 0 and max(ends) > _WIDE * min(ends)


def images(
    panels: Sequence[Panel],
    handles: Sequence[Any],
    *,
    columns: int,
    share_x: bool = False,
    log: bool = False,
) -> tuple[bytes, bytes]:
    """Panels below each other with their legend in so many columns: as wide as a page, and narrow.

    With `log`, and in a panel of ratios far apart, a tenth is as far from 1 as ten times. The
    narrow one is for a telephone: names stand above their dots, and what is long in lines.
    """

    def draw(width: float) -> Figure:
        across = columns if width == WIDTH else 1
        return _figure(panels, handles, across, share_x=share_x, log=log, width=width)

    return plots.images(draw)


def _figure(
    panels: Sequence[Panel],
    handles: Sequence[Any],
    columns: int,
    *,
    share_x: bool,
    log: bool,
    width: float,
) -> Figure:
    narrow = width < WIDTH
    row = 0.4 if narrow else 0.27
    height = sum(0.62 + row * len(panel.shown) for panel in panels) + 0.35
    if narrow:
        height += 0.2 * len(handles)
    figure = Figure(figsize=(width, height), layout="constrained")
    ratios = {"height_ratios": [len(panel.shown) + 1.3 for panel in panels]}
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=share_x, gridspec_kw=ratios)
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        if log or (panel.is_wide and not share_x):
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.xaxis.set_minor_formatter("")
        _draw(axis, panel, narrow=narrow)
    figure.legend(handles=list(handles), loc="outside upper left", ncols=columns)
    return figure


def _draw(axis: Axes, panel: Panel, *, narrow: bool) -> None:
    """Ratios below each other with their intervals, and a line at 1."""
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    for place, one in enumerate(panel.shown):
        axis.plot([one.ratio], [place], linestyle="none", markersize=6, **one.look)
        if one.ends is not None:
            axis.plot(one.ends, [place, place], color=one.look["color"], linewidth=1.6)
        text: dict[str, Any] = {"va": "center", "fontsize": 8.5, **beside}
        axis.annotate(one.text, (1.0, place), xytext=(4, 0), **text)
        if narrow:
            axis.annotate(one.name, (0.0, place), xytext=(2, 5), **text | {"va": "bottom"})
    names = [""] * len(panel.shown) if narrow else [one.name for one in panel.shown]
    axis.set_yticks(range(len(panel.shown)), names)
    axis.set_ylim(len(panel.shown) - 0.4, -1.0 if narrow else -0.6)
    axis.axvline(1, color="#777777", linewidth=0.9, linestyle=":")
    words = (panel.title, panel.x_label)
    lines = (textwrap.fill(it, NARROW_LETTERS) if narrow else it for it in words)
    axis.set_title(next(lines), fontsize=9.5, loc="left", fontweight="bold")
    axis.set_xlabel(next(lines))
    axis.margins(x=0.08)
    if narrow and axis.get_xscale() == "linear":
        axis.locator_params(axis="x", nbins=5)
