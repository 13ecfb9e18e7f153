"""Arithmetic that goes on where Python's raises: by zero, of zero."""

from __future__ import annotations

import math


def over(a: float, b: float) -> float:
    """`a / b`; infinite, or not a number for 0 / 0, where `b` is zero."""
    if b != 0.0:
        return a / b
    return math.nan if a == 0.0 or math.isnan(a) else math.copysign(math.inf, a)


def ln(x: float) -> float:
    """Natural logarithm; not a number below zero."""
    if x > 0.0:
        return math.log(x)
    return -math.inf if x == 0.0 else math.nan


def log2(x: float) -> float:
    """Logarithm to base 2; not a number below zero."""
    if x > 0.0:
        return math.log2(x)
    return -math.inf if x == 0.0 else math.nan
