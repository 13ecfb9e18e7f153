"""Numbers in sentences and tables: rounded, and hardly ever in powers of ten."""

from __future__ import annotations

import math

_SMALL, _LARGE = 1e-9, 1e15
"""Outside of these all digits tell a reader less than a power of ten."""


def plain(value: float, digits: int = 3) -> str:
    """A number to so many significant digits, or all before the point: 0.0123, 43.8, 1,364."""
    text = f"{value:,.{digits}g}"
    size = abs(value)
    if "e+" in text and size < _LARGE:
        return f"{value:,.0f}"
    if "e-" in text and size >= _SMALL:
        places = digits - 1 - math.floor(math.log10(size))
        return f"{value:.{places}f}".rstrip("0")
    return text
