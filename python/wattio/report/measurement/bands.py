"""What stands behind power over time: phases and INVALID iterations shaded, gaps, moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from wattio.kinds.measurement.record import Phase, Record
from wattio.kinds.measurement.schema import IDLE
from wattio.report.measurement.samples import Curve, Looked, Series, Stretch
from wattio.report.plots import Band

_SHADES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_PALE = 0.18
_HATCHES = ("", "\\\\", "..", "||", "--", "oo")
IDLE_LOOK: dict[str, Any] = {"facecolor": "#e8e8e8", "edgecolor": "#b0b0b0", "hatch": "////"}
INVALID_LOOK: dict[str, Any] = {"facecolor": "#F4C7CE", "edgecolor": "#A40E26", "hatch": "xxxx"}
INVALID_TOP = 0.06
_GAP: dict[str, Any] = {"facecolor": "#000000", "alpha": 0.75}
Moments = TypeVar("Moments", float, Series)

_NARROW = 0.07
"""A phase narrower than this share of a panel has no room for its name."""


@dataclass(frozen=True)
class Moment:
    """Moments in seconds on the axis of a panel: since its beginning, in the axis's unit."""

    start_s: float
    unit_s: float

    def __call__(self, time_s: Moments) -> Moments:
        """Where a moment lies on the axis."""
        return (time_s - self.start_s) / self.unit_s

    def seconds(self, time_s: Moments) -> Moments:
        """Since the panel's beginning."""
        return time_s - self.start_s


def phase_bands(record: Record, at: Moment) -> list[Band]:
    """The phases of an iteration, as `shade_phases` shades them."""
    return [
        band(phase.span.name, None if phase.span.name == IDLE else number, [_ends(phase, at)])
        for number, phase in enumerate(record.phases)
    ]


def band(label: str, number: int | None, stretches: Sequence[Stretch]) -> Band:
    """What has the look of `shade(number)`, or of idling; its colour lets a dark page through."""
    if number is None:
        return Band(label, "#999999", 0.22, list(stretches))
    return Band(label, _SHADES[number % len(_SHADES)], _PALE, list(stretches))


def invalid_band(stretches: Sequence[Stretch]) -> Band:
    """INVALID iterations, marked at the foot."""
    return Band("INVALID", INVALID_LOOK["edgecolor"], 0.6, list(stretches), INVALID_TOP)


def _ends(phase: Phase, at: Moment) -> Stretch:
    start, end = (at(moment.monotonic_ns / 1e9) for moment in (phase.span.start, phase.span.end))
    return start, end


def shade_phases(axis: Axes, record: Record, at: Moment, *, named: bool = True) -> None:
    """Shade the phases of an iteration; with their names where there is room."""
    length = at((record.end.monotonic_ns - record.start.monotonic_ns) / 1e9 + at.start_s)
    for number, phase in enumerate(record.phases):
        start, end = _ends(phase, at)
        look = IDLE_LOOK if phase.span.name == IDLE else shade(number) | {"hatch": ""}
        axis.axvspan(start, end, linewidth=0, zorder=0.2, **look)
        if named and (end - start > _NARROW * length or len(record.phases) < 4):
            axis.text(
                (start + end) / 2,
                0.96,
                phase.span.name,
                transform=axis.get_xaxis_transform(),
                ha="center",
                va="top",
                fontsize=8.5,
            )


def shade_strips(
    axis: Axes,
    strips: Sequence[Stretch],
    top: float = 1.0,
    **look: Any,  # noqa: ANN401 (matplotlib)
) -> None:
    """Shade strips of the x axis, from its foot to a share `top` of the height, all at once.

    One by one, each is held against all that is drawn already.
    """
    corners = [((start, 0), (start, top), (end, top), (end, 0)) for start, end in strips]
    drawn = PolyCollection(corners, transform=axis.get_xaxis_transform(), linewidth=0, **look)
    axis.add_collection(drawn, autolim=False)


def separate(axis: Axes, places: Sequence[float]) -> None:
    """Keep neighbouring strips apart by thin white lines."""
    ends = [((place, 0), (place, 1)) for place in places]
    transform = axis.get_xaxis_transform()
    lines = LineCollection(ends, transform=transform, color="white", linewidth=0.8, zorder=0.8)
    axis.add_collection(lines, autolim=False)


def shade(number: int) -> dict[str, Any]:
    """The background of a workload or phase: its colour, and a hatch for where there is none."""
    red, green, blue = to_rgb(_SHADES[number % len(_SHADES)])
    # Pale, not transparent, which its hatch would be too.
    pale = tuple(1 - _PALE * (1 - part) for part in (red, green, blue))
    hatch = _HATCHES[number % len(_HATCHES)]
    return {"facecolor": pale, "edgecolor": "#b0b0b0", "hatch": hatch}


def broken(curve: Curve, gaps: Sequence[Stretch]) -> tuple[Any, Any, Any, Any]:
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


def gaps_shown(
    axis: Axes, looked: Looked, stretch: Stretch, at: Moment, *, only: str | None = None
) -> list[Any]:
    """Gaps of each meter, or of one, as black strips at the foot above those of INVALID."""
    drawn = False
    every = looked.gaps if only is None else {only: looked.gaps.get(only, [])}
    for number, gaps in enumerate(every.values()):
        for start_s, end_s in gaps:
            if end_s > stretch[0] and start_s < stretch[1]:
                foot = 0.07 + 0.04 * number
                start, end = at(max(start_s, stretch[0])), at(min(end_s, stretch[1]))
                axis.axvspan(start, end, ymin=foot, ymax=foot + 0.03, linewidth=0.8, **_GAP)
                drawn = True
    return [Patch(label="no sample", **_GAP)] if drawn else []


def points_text(looked: Looked, place: int) -> str:
    """What a point of the curves of a stretch stands for."""
    binned = any(curve.binned for (_, number), curve in looked.curves.items() if number == place)
    text = "Each point is the mean over a short time, the band from the least to the most sample."
    return f"{text if binned else 'Each point is a sample.'} The axis does not begin at zero."
