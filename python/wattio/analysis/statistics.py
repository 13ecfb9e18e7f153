"""Spread and confidence: means, deviations and bootstrap intervals, seeded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

RESAMPLES = 2000
"""How often a bootstrap draws, where nothing else is said."""

_DRAWN_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval, in the estimate's unit."""

    estimate: float
    low: float
    high: float
    confidence: float


def sample_deviation(values: Sequence[float]) -> float | None:
    """Standard deviation of a sample (n - 1 in the denominator); None for fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of ratios. Raises ValueError for no values or a value that is not above 0."""
    if not values:
        raise ValueError("a geometric mean needs a value")
    if not all(value > 0 for value in values):
        raise ValueError("a geometric mean needs values above 0")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def bootstrap_mean(
    values: Sequence[float], seed: int, confidence: float = 0.95, resamples: int = RESAMPLES
) -> Interval:
    """Percentile bootstrap of the mean over independent values (seeds or repetitions).

    One value gives an interval of no width. Raises ValueError for no values.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, section 13.3.
    """
    if not values:
        raise ValueError("a mean needs a value")
    sample = np.asarray(values, dtype=np.float64)
    # All at once, with the draws of `independent_weights`: a report takes thousands of means.
    draws = np.random.default_rng(seed).integers(sample.size, size=(resamples, sample.size))
    ends = _ends(sample[draws].mean(axis=1), confidence)
    return Interval(float(sample.mean()), *ends, confidence)


def bootstrap_ratio(
    first: Sequence[float],
    second: Sequence[float],
    seed: int,
    *,
    paired: bool = False,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Percentile bootstrap of the mean of `second` over the mean of `first`.

    Each side is drawn by itself, or the pairs of both where they belong together; pairs need lists
    of one length. None where a side has fewer than two values (nothing is known of the noise), or
    the mean of `first` is 0.
    """
    if min(len(first), len(second)) < 2 or not sum(first):
        return None
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    generator = np.random.default_rng(seed)
    below, above = np.empty(resamples), np.empty(resamples)
    # A few draws at a time: sides can be fleets of thousands.
    step = max(1, _DRAWN_AT_ONCE // max(left.size, right.size))
    for start in range(0, resamples, step):
        rows = slice(start, min(start + step, resamples))
        size = rows.stop - rows.start
        places = generator.integers(left.size, size=(size, left.size))
        below[rows] = left[places].mean(axis=1)
        if not paired:
            places = generator.integers(right.size, size=(size, right.size))
        above[rows] = right[places].mean(axis=1)
    usable = below != 0
    ends = _ends(above[usable] / below[usable], confidence)
    return Interval(float(right.mean() / left.mean()), *ends, confidence)


def bootstrap(
    statistic: Callable[[Values], float],
    weights: Iterator[Values],
    size: int,
    confidence: float = 0.95,
) -> Interval:
    """Percentile bootstrap of any statistic of weighted observations.

    `statistic` takes how often each of the `size` observations counts; `weights` yields one such
    array for each resample. Resamples whose statistic is not finite are left out.
    """
    estimate = statistic(np.ones(size))
    drawn = np.array([statistic(weight) for weight in weights])
    drawn = drawn[np.isfinite(drawn)]
    if drawn.size == 0:
        return Interval(estimate, estimate, estimate, confidence)
    return Interval(estimate, *_ends(drawn, confidence), confidence)


def _ends(drawn: Values, confidence: float) -> tuple[float, float]:
    """The percentiles that hold a share of what was drawn."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def independent_weights(size: int, seed: int, resamples: int = RESAMPLES) -> Iterator[Values]:
    """Weights of the ordinary bootstrap: `size` draws with replacement, each time."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.integers(size, size=size), minlength=size).astype(np.float64)


def moving_block_weights(
    size: int, seed: int, resamples: int = RESAMPLES, block: int | None = None
) -> Iterator[Values]:
    """Weights of the moving-block bootstrap, for observations in time that depend on each other.

    Blocks of `block` neighbours (default: size to the power 1/3, rounded up) are drawn with
    replacement and cut to `size` observations. Raises ValueError for a block outside 1 to size.
    Source: Kuensch, Annals of Statistics 17 (1989), 1217-1241.
    """
    length = math.ceil(size ** (1 / 3)) if block is None else block
    if not 1 <= length <= size:
        raise ValueError(f"block of {length} in {size} observations")
    generator = np.random.default_rng(seed)
    blocks = math.ceil(size / length)
    within = np.arange(length)
    for _ in range(resamples):
        starts = generator.integers(size - length + 1, size=blocks)
        chosen = (starts[:, None] + within).ravel()[:size]
        yield np.bincount(chosen, minlength=size).astype(np.float64)
