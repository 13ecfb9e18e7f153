"""Rates out of repeated measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from wattio.analysis.peak import Rate
from wattio.analysis.statistics import sample_deviation


def combine(repetitions: Sequence[Rate]) -> Rate:
    """One rate out of repetitions: their mean, and the deviation between them.

    A single one keeps the deviation of its own samples. Raises ValueError for none.
    """
    if not repetitions:
        raise ValueError("no measurement to combine")
    if len(repetitions) == 1:
        return repetitions[0]
    means = [rate.mean for rate in repetitions]
    return Rate(statistics.fmean(means), sample_deviation(means), len(means))


def together(rates: Sequence[Rate]) -> Rate:
    """The rate of what ran at once: the sum, with deviations added in squares.

    The number of values is that of the one with the fewest. Raises ValueError for none.
    """
    if not rates:
        raise ValueError("nothing ran")
    deviations = [rate.deviation for rate in rates if rate.deviation is not None]
    counts = [rate.n for rate in rates if rate.n is not None]
    whole = len(deviations) == len(rates)
    return Rate(
        math.fsum(rate.mean for rate in rates),
        math.hypot(*deviations) if whole else None,
        min(counts) if whole and counts else None,
    )
