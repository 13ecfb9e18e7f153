"""How figures look: colours, lines and hatches that also work in grey and for the colour-blind."""

from __future__ import annotations

import io
import itertools
import re
import textwrap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from numpy.typing import NDArray

from wattio.report.phrases import LATENCY_UNITS, latency

WIDTH = 9.0
"""Width of a figure in inches; the page scales it."""

NARROW, NARROW_LETTERS = 4.4, 44
"""Width for narrow screens, at which letters stay legible, and how many of them a line holds."""

Table = list[list[Any]]
"""Rows of a CSV file, the header first."""


@dataclass(frozen=True)
class Band:
    """What is shaded behind curves: its name, colour and opacity, and the stretches of x it covers.

    It reaches from the foot to a share `top` of the height.
    """

    label: str
    colour: str
    opacity: float
    stretches: list[tuple[float, float]]
    top: float = 1.0


@dataclass(frozen=True)
class Panel:
    """Curves over one x axis that a page can look into: hover for values, zoom.

    `series` has for each curve its label, colour, dashes, the corners of its mark, and a value or
    None for each x; `bands` are shaded behind them. All of x is shown from `y_min` to `y_max`
    where they are given; `cut` says what leaves the top.
    """

    x_label: str
    y_label: str
    x: list[float]
    series: list[dict[str, Any]]
    log: bool = False
    span_gaps: bool = False
    y_min: float | None = None
    y_max: float | None = None
    bands: tuple[Band, ...] = ()
    cut: str = ""


@dataclass(frozen=True)
class Drawn:
    """A figure: its file name without ending, title, caption, alternative text, image and data.

    `panels` are its curves where they can be looked into; `narrow` is the image for narrow screens.
    One of the two is there, or its letters are too small on a telephone.
    """

    name: str
    title: str
    caption: str
    alternative: str
    image: bytes
    table: Table
    panels: tuple[Panel, ...] = ()
    narrow: bytes | None = None


POINTS = 240
"""Most points of a curve over time: more than that is a blur at the width of a page."""

Line = tuple[str, "Stroke | dict[str, Any]", NDArray[np.float64], NDArray[np.float64]]
"""Label, look, x and y of a curve."""


def panel(
    x_label: str,
    y_label: str,
    lines: Sequence[Line],
    *,
    log: bool = False,
    stepped: bool = False,
    y_ends: tuple[float, float] | None = None,
    cut: str = "",
    bands: Sequence[Band] = (),
    marks: bool = False,
) -> Panel:
    """Curves put on one x axis, to five digits; NaN is a gap.

    With `marks` strokes have those of the still figure.
    """
    x = np.unique(np.concatenate([line[2] for line in lines]))
    if log:
        x = x[x > 0]
    series = []
    for label, look, own_x, own_y in lines:
        known = dict(zip(own_x.tolist(), own_y.tolist(), strict=True))
        values = [known.get(at) for at in x.tolist()]
        shown = [_digits(value) if value is not None and _shows(value, log) else None
                 for value in values]  # fmt: skip
        colour, dashes = _look(look)
        entry = {"label": label, "colour": colour, "dashes": dashes, "stepped": stepped}
        if marks and isinstance(look, Stroke):
            entry["marker"] = _corners(look.marker)
        series.append(entry | {"values": shown})
    same = all(len(line[2]) == len(x) for line in lines)
    places = [_digits(at) for at in x.tolist()]
    shaded = tuple(
        replace(band, stretches=[(_digits(start), _digits(end)) for start, end in band.stretches])
        for band in bands
    )
    low, high = y_ends or (None, None)
    return Panel(x_label, y_label, places, series, log, not same, low, high, shaded, cut)


def _corners(marker: str) -> list[list[float]]:
    """The outline of a mark, in parts of its size; y points up. Of a circle, a few corners."""
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    outline = np.asarray(path.to_polygons()[0]).tolist()
    return [
        [round(float(x), 2), round(float(y), 2)] for x, y in outline[:: len(outline) // 16 or 1]
    ]


def _shows(value: float, log: bool) -> bool:
    return bool(np.isfinite(value)) and (value > 0 or not log)


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


def _look(look: Stroke | dict[str, Any]) -> tuple[str, list[float]]:
    """Colour and dashes, in pixels."""
    if isinstance(look, Stroke):
        colour, dashes = look.colour, look.dashes
    else:
        colour, dashes = look["color"], look.get("linestyle", "-")
    if isinstance(dashes, str):
        return colour, {":": [2.0, 3.0], "--": [6.0, 3.0]}.get(dashes, [])
    return colour, [1.5 * length for length in dashes[1]]


RC: dict[Any, Any] = {
    "svg.hashsalt": "wattio",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.labelcolor": "#222222",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
}


@dataclass(frozen=True)
class Stroke:
    """How the curve of a policy is drawn; colours are from Okabe and Ito's palette."""

    colour: str
    dashes: str | tuple[int, tuple[float, ...]]
    width: float
    marker: str


_KNOWN = {
    "native": Stroke("#000000", "-", 1.0, "o"),
    "pacer": Stroke("#0072B2", "-", 2.0, "s"),
    "ondemand": Stroke("#E69F00", (0, (5.0, 2.0)), 1.4, "^"),
    "oracle": Stroke("#009E73", (0, (6.0, 2.0, 1.0, 2.0)), 1.6, "D"),
}
_COLOURS = ("#D55E00", "#CC79A7", "#56B4E9", "#666666", "#0072B2", "#009E73", "#E69F00")
_DASHES = (
    (0, (2.0, 1.5)),
    (0, (8.0, 2.0)),
    (0, (3.0, 1.5, 1.0, 1.5, 1.0, 1.5)),
    (0, (1.0, 1.0)),
)
_MARKERS = ("v", "P", "X", "*", "<", ">", "p", "h", "d")


def _other(number: int) -> Stroke:
    """A stroke for what has no meaning of its own; 252 of them before one comes again."""
    pick = (sequence[number % len(sequence)] for sequence in (_COLOURS, _DASHES, _MARKERS))
    return Stroke(next(pick), next(pick), 1.4, next(pick))  # type: ignore[arg-type]


STATES = (
    ("unstable: full speed", "#E69F00", 0.22, ""),
    ("stable: saving", "#56B4E9", 0.13, ""),
    ("idle: no client", "#999999", 0.22, "////"),
)
"""Name, colour, opacity and hatch of each state, in the order of their numbers."""

COMPONENTS = (
    ("cores", "#0072B2", "", "white"),
    ("drives", "#F0E442", "///", "black"),
    ("rest", "#BBBBBB", "\\\\", "black"),
)
"""Part of the server, its colour, hatch and the colour of text on it."""


def strokes(policies: Sequence[str]) -> list[Stroke]:
    """One stroke for each policy, none twice: well-known ones always look the same."""
    chosen: list[Stroke] = []
    spare = map(_other, itertools.count())
    for policy in policies:
        known = _KNOWN.get(policy)
        chosen.append(known if known and known not in chosen else next(spare))
    return chosen


def figure(width: float, height: float, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure in inches with panels above each other that share the x axis."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    axes = drawn.subplots(panels, 1, sharex=True, squeeze=False)
    return drawn, [axis for row in axes for axis in row]


_PLACES = re.compile(rb"(?<=[ \"])(-?\d+\.\d\d)\d+(?=[ \"\n])")
"""Coordinates to a hundredth of a point; what stands in brackets (scales) keeps all its digits."""


def svg(drawn: Figure) -> bytes:
    """The figure as SVG, the same bytes each time: no date, no random names, no idle digits."""
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "wattio"})
    return _PLACES.sub(rb"\1", buffer.getvalue())


def styled() -> AbstractContextManager[None]:
    """Context in which figures are made."""
    return mpl.rc_context(RC)


def images(draw: Callable[[float], Figure]) -> tuple[bytes, bytes]:
    """What is drawn for a width in inches: as wide as a page, and for narrow screens."""
    with styled():
        return svg(draw(WIDTH)), svg(draw(NARROW))


def named_rows(axis: Axes, names: Sequence[str], *, narrow: bool) -> None:
    """Names of rows, the first at the top; long ones in several lines if there is little room."""
    shown = [textwrap.fill(name, 14) for name in names] if narrow else list(names)
    axis.set_yticks(range(len(shown)), shown)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)


def fit(axis: Axes, values_us: NDArray[np.float64], label: str) -> str:
    """Latency in view, in the unit that fits: single spikes may leave the top, to read the rest.

    What is said of those; empty where there are none.
    """
    axis.set_ylabel(f"{label} (µs)")
    values_us = values_us[np.isfinite(values_us)]
    if not len(values_us):
        return ""
    usual, most = float(np.quantile(values_us, 0.98)), float(values_us.max())
    top = 1.08 * most if most < 2.5 * usual else 1.6 * usual
    least = float(values_us.min())
    axis.set_ylim(0.93 * least if least > 0.6 * top else 0, top)
    factor, unit = latency_unit(top)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value / factor:g}")
    axis.set_ylabel(f"{label} ({unit})")
    text = ""
    if most >= 2.5 * usual:
        text = f"peaks up to {latency(most)} are cut off"
        style: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 8.5}
        style["bbox"] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
        axis.text(0.995, 0.97, text, transform=axis.transAxes, **style)
        mark_cut(axis, top=True)
    mark_cut(axis)
    return text


def latency_unit(largest_us: float) -> tuple[float, str]:
    """Microseconds in the unit that suits an axis up to a latency, and the unit."""
    return next((one for one in LATENCY_UNITS if largest_us >= one[0]), LATENCY_UNITS[-1])


def mark_cut(axis: Axes, *, top: bool = False) -> None:
    """Two strokes across the y axis where it leaves something out: at its top, or below its foot.

    Nothing is marked at the foot of an axis that begins at zero.
    """
    low, high = axis.get_ylim()
    if not top and low <= 0 <= high:
        return
    place = 0.985 if top else 0.015
    for shift in (-0.012, 0.012):
        line: dict[str, Any] = {"color": "#222222", "linewidth": 1.1, "clip_on": False}
        ends = [place + shift - 0.012, place + shift + 0.012]
        axis.plot([-0.008, 0.008], ends, transform=axis.transAxes, **line)


def thinned(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[Any, Any]:
    """A curve over a logarithmic axis with no more points than can be told apart; its ends stay."""
    if len(x) <= POINTS:
        return x, y
    place = np.log(np.maximum(x, 1e-9))
    bins = ((place - place[0]) / max(place[-1] - place[0], 1e-9) * POINTS).astype(np.int64)
    # Of equal bins the last: where the curve has fallen to.
    keep = np.append(np.diff(bins) > 0, True)
    keep[0] = True
    return x[keep], y[keep]


def exceedance_axis(axis: Axes, lowest: float) -> None:
    """Axes of a distribution of latency: shares down to `lowest` that are slower, both in logs."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(max(lowest, 1e-6), 1.0)
    shares = [10.0**-power for power in range(7) if 10.0**-power >= max(lowest, 1e-6)]
    axis.set_yticks(shares, [f"{100 * share:g} %" for share in shares])
    for share, name in ((0.5, "median"), (1e-2, "p99"), (1e-3, "p99.9"), (1e-4, "p99.99")):
        if share >= max(lowest, 1e-6):
            axis.axhline(share, color="#777777", linewidth=0.7, linestyle=":")
            axis.annotate(
                name,
                (1.0, share),
                xycoords=("axes fraction", "data"),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color="#444444",
            )
    axis.set_xlabel("latency")
    axis.set_ylabel("share of I/Os that are slower")
    plain_log(axis)


def plain_log(axis: Axes) -> None:
    """Latencies with their units, not as powers of ten."""
    low, high = axis.get_xlim()
    steps = [m * 10.0**e for e in range(0, 9) for m in (1, 2, 5)]
    shown = [step for step in steps if low <= step <= high]
    if len(shown) > 10:
        shown = [step for step in shown if f"{step:e}".startswith("1")]
    units = [latency_unit(step) for step in shown]
    labels = [f"{step / at:g} {unit}" for step, (at, unit) in zip(shown, units, strict=True)]
    axis.set_xticks(shown, labels)
    axis.minorticks_off()


_BARS = (("#56B4E9", ""), ("#F0E442", "////"), ("#BBBBBB", "...."), ("#CC79A7", "xxxx"))


def series_strokes(count: int) -> list[Stroke]:
    """A stroke for each of so many series that have no meaning of their own; none twice."""
    return [*_KNOWN.values(), *map(_other, range(max(0, count - len(_KNOWN))))][:count]


def bar(number: int) -> dict[str, Any]:
    """Colour and hatch of the bars, boxes and shades of a kind."""
    colour, hatch = _BARS[number % len(_BARS)]
    return {"facecolor": colour, "hatch": hatch}


_LEGEND_LETTERS, _HANDLE_LETTERS = 112, 11
"""Room in a line of a legend, and what a handle takes of it."""

_TIME_UNITS = (
    (300, 1, "s"),
    (3 * 3600, 60, "min"),
    (3 * 86400, 3600, "h"),
    (np.inf, 86400, "days"),
)


def legend(drawn: Figure, handles: Sequence[Any], width: float = WIDTH) -> None:
    """A legend above all panels of a figure, in as many columns as its width in inches allows."""
    if not handles:
        return
    letters = int(_LEGEND_LETTERS * width / WIDTH)
    for handle in handles:
        handle.set_label(textwrap.fill(str(handle.get_label()), letters - _HANDLE_LETTERS))
    lines = [line for handle in handles for line in str(handle.get_label()).split("\n")]
    longest = max(map(len, lines))
    columns = max(1, min(4, letters // (longest + _HANDLE_LETTERS)))
    placed: dict[str, Any] = {"loc": "outside upper left", "ncols": columns, "handlelength": 3.0}
    drawn.legend(handles=list(handles), **placed)


def time_unit(span_s: float) -> tuple[float, str]:
    """Seconds in the unit of a time axis that suits a span, and the unit."""
    _, seconds, unit = next(one for one in _TIME_UNITS if span_s <= one[0])
    return float(seconds), unit
