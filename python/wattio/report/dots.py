"""Ratios as dots with intervals, below each other: how rankings and comparisons are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wattio.report.drawing import WIDTH


@dataclass(frozen=True)
class Dot:
    """A ratio with its name, its look, what stands at its right, and its interval's ends."""

    name: str
    ratio: float
    text: str
    look: dict[str, Any]
    ends: tuple[float, float] | None = None


def draw(axis: Axes, title: str, shown: Sequence[Dot]) -> None:
    """Ratios below each other with their intervals, and a line at 1."""
    for place, one in enumerate(shown):
        axis.plot([one.ratio], [place], linestyle="none", markersize=6, **one.look)
        if one.ends is not None:
            axis.plot(one.ends, [place, place], color=one.look["color"], linewidth=1.6)
        axis.annotate(
            one.text,
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axis.set_yticks(range(len(shown)), [one.name for one in shown])
    axis.set_ylim(len(shown) - 0.4, -0.6)
    axis.axvline(1, color="#777777", linewidth=0.9, linestyle=":")
    axis.set_title(title, fontsize=9.5, loc="left", fontweight="bold")
    axis.margins(x=0.08)


def panels(counts: Sequence[int], *, share_x: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure of panels below each other, each with room for so many dots."""
    height = sum(0.62 + 0.27 * count for count in counts) + 0.35
    drawn = Figure(figsize=(WIDTH, height), layout="constrained")
    ratios = {"height_ratios": [count + 1.3 for count in counts]}
    axes = drawn.subplots(len(counts), 1, squeeze=False, sharex=share_x, gridspec_kw=ratios)
    return drawn, list(axes[:, 0])
