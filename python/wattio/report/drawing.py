"""How figures look: colours, lines and hatches that also work in grey and for the colour-blind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
_OTHERS = (
    Stroke("#D55E00", (0, (2.0, 1.5)), 1.4, "v"),
    Stroke("#CC79A7", (0, (8.0, 2.0)), 1.4, "P"),
    Stroke("#56B4E9", (0, (3.0, 1.5, 1.0, 1.5, 1.0, 1.5)), 1.4, "X"),
    Stroke("#666666", (0, (1.0, 1.0)), 1.4, "*"),
)

STATES = (
    ("unstable: full speed", "#E69F00", 0.22, ""),
    ("stable: saving", "#56B4E9", 0.13, ""),
    ("idle: no client", "#999999", 0.22, "////"),
)
"""Name, colour, opacity and hatch of each state, in the order of their numbers."""

COMPONENTS = (
    ("cores", "#0072B2", "", "white"),
    ("drives", "#F0E442", "///", "black"),
    ("rest", "#BBBBBB", "...", "black"),
)
"""Part of the server, its colour, hatch and the colour of text on it."""


def strokes(policies: Sequence[str]) -> list[Stroke]:
    """One stroke for each policy, none twice: well-known ones always look the same."""
    chosen: list[Stroke] = []
    spare = iter(_OTHERS * 8)
    for policy in policies:
        known = _KNOWN.get(policy)
        chosen.append(known if known and known not in chosen else next(spare))
    return chosen


def figure(width: float, height: float, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure in inches with panels above each other that share the x axis."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    axes = drawn.subplots(panels, 1, sharex=True, squeeze=False)
    return drawn, [axis for row in axes for axis in row]


def svg(drawn: Figure) -> bytes:
    """The figure as SVG, the same bytes each time: no date, no random names."""
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "wattio"})
    return buffer.getvalue()


def styled() -> AbstractContextManager[None]:
    """Context in which figures are made."""
    return mpl.rc_context(RC)
