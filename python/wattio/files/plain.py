"""Numbers in sentences: rounded, and never in powers of ten where they are large."""

from __future__ import annotations

_LARGE = 1e15
"""From here on all digits tell a reader less than a power of ten."""


def plain(value: float, digits: int = 3) -> str:
    """A number to so many significant digits, or all before the point: 0.0123, 43.8, 1,364."""
    text = f"{value:,.{digits}g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < _LARGE else text
