"""Numbers as people read them."""

from __future__ import annotations

import math

DASH = "\N{EN DASH}"


def number(value: float | None) -> str:
    """Three significant digits or all before the point, thousands apart, no power of ten."""
    if value is None:
        return DASH
    size = abs(value)
    if size >= 1000 or value == 0:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"


def percent(share: float | None, decimals: int | None = None) -> str:
    """A share as per cent; one decimal below ten."""
    if share is None:
        return DASH
    value = 100 * share
    places = decimals if decimals is not None else (0 if abs(value - round(value)) < 1e-9 else 1)
    return f"{value:.{places}f}\N{NO-BREAK SPACE}%"


def setting(value: object) -> str:
    """The value of a setting as a study file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def times(ratio: float | None) -> str:
    """A ratio to native."""
    return DASH if ratio is None else f"{ratio:.2f}\N{MULTIPLICATION SIGN}"
