"""Spread and confidence: means, deviations, t tests and intervals, and seeded bootstraps."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

RESAMPLES = 2000
"""How often a bootstrap draws, where nothing else is said."""

_ROUNDING = 1e-12
"""Relative differences below this are those of floating point."""

_QUANTILES = 48
"""So many quantiles stand for a distribution."""

_LARGEST = math.log(sys.float_info.max)


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


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Mean of independent values (seeds or repetitions) with Student's t interval.

    None for fewer than two values: nothing is known of the noise then.
    """
    if len(values) < 2:
        return None
    sample = np.asarray(values, dtype=np.float64)
    reach = _t(sample.size - 1, confidence) * float(sample.std(ddof=1)) / math.sqrt(sample.size)
    mean = float(sample.mean())
    return Interval(mean, mean - reach, mean + reach, confidence)


def geometric_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Geometric mean of ratios with Student's t interval of their logarithms.

    None for fewer than two values. Raises ValueError for a value that is not above 0.
    """
    estimate = geometric_mean(values)
    logs = mean_interval([math.log(value) for value in values], confidence)
    return logs and Interval(estimate, math.exp(logs.low), math.exp(logs.high), confidence)


@dataclass(frozen=True)
class RatioTest:
    """Whether the mean of one sample over that of another is 1: a t test of its logarithm.

    `parts` are the variances that the logarithm has, each with its degrees of freedom: one of each
    sample, or one of all pairs.
    """

    ratio: float
    parts: tuple[tuple[float, int], ...]

    @property
    def error(self) -> float:
        """The standard error of the logarithm."""
        return math.sqrt(math.fsum(variance for variance, _ in self.parts))

    @property
    def freedom(self) -> float:
        """Satterthwaite's degrees of freedom."""
        if self.error == 0:
            return math.fsum(freedom for _, freedom in self.parts)
        total = self.error**2
        return 1 / math.fsum((variance / total) ** 2 / freedom for variance, freedom in self.parts)

    @property
    def p(self) -> float:
        """How often as much would be seen if nothing differed."""
        from scipy.special import stdtr

        change = abs(math.log(self.ratio))
        if self.error == 0:
            return 1.0 if change < _ROUNDING else 0.0
        return float(2 * stdtr(self.freedom, -change / self.error))

    def interval(self, confidence: float = 0.95) -> Interval:
        """The interval of the ratio. It holds 1 just where `p` is at least 1 - confidence."""
        reach = _t(self.freedom, confidence) * self.error
        low, high = (_exponential(math.log(self.ratio) + far) for far in (-reach, reach))
        return Interval(self.ratio, low, high, confidence)

    def seen_from(self, level: float, power: float = 0.8) -> float:
        """How much larger (0.05 is 5 %) would be told at a level, in `power` of such comparisons.

        For normal samples of this size whose spread is the one that was seen: over the quantiles of
        the variances that they would show, each with the threshold that it sets.
        """
        from scipy.optimize import brentq
        from scipy.special import chdtri, ndtr, stdtrit

        if self.error == 0:
            return 0.0
        above = 1 - (np.arange(_QUANTILES) + 0.5) / _QUANTILES
        shown = [
            variance / self.error**2 * chdtri(freedom, above) / freedom
            for variance, freedom in self.parts
        ]
        grids = np.meshgrid(*shown)
        total = sum(grids)
        weighed = (grid**2 / freedom for grid, (_, freedom) in zip(grids, self.parts, strict=True))
        threshold = stdtrit(total**2 / sum(weighed), 1 - level / 2) * np.sqrt(total)
        most = float(threshold.max()) + 10
        away = brentq(lambda size: float(ndtr(size - threshold).mean()) - power, -10, most)
        return _exponential(float(away) * self.error) - 1


def ratio_test(
    first: Sequence[float], second: Sequence[float], *, paired: bool = False
) -> RatioTest | None:
    """Welch's t test of the ratio of means, `second` over `first`; of pairs, the paired t test.

    Standard errors are those of the means, relative to them (the delta method for the logarithm).
    Of equal normal samples of one size, 2 to 5 % are called different at 0.05; up to 6.2 % where
    one varies ten times as much as the other, and up to 10 % where that one has fewer values, too.
    Pairs need lists of one length. None if a side has fewer than two values (nothing is known of
    the noise), or a mean that is not above 0.
    Sources: Welch, Biometrika 34 (1947), 28-35; Satterthwaite, Biometrics Bulletin 2 (1946), 110.
    """
    if min(len(first), len(second)) < 2:
        return None
    sides = [np.asarray(side, dtype=np.float64) for side in (first, second)]
    means = [float(side.mean()) for side in sides]
    if min(means) <= 0:
        return None
    relative = [side / mean for side, mean in zip(sides, means, strict=True)]
    if paired:
        relative = [relative[1] - relative[0]]
    parts = tuple((_variance_of_mean(side), side.size - 1) for side in relative)
    return RatioTest(means[1] / means[0], parts)


def _variance_of_mean(values: Values) -> float:
    """Of relative values, without what floating point leaves of equal ones."""
    found = float(values.var(ddof=1)) / values.size
    return found if found > _ROUNDING**2 else 0.0


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of several tests, corrected so that all are held to one level together.

    Where nothing differs, any of them falls below 0.05 in at most one of twenty cases, however the
    tests depend on each other.
    Source: Holm, Scandinavian Journal of Statistics 6 (1979), 65-70.
    """
    found = [1.0] * len(p_values)
    largest = 0.0
    for done, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[at]))
        found[at] = largest
    return found


def chosen_p(
    first: Sequence[float], second: Sequence[float], among: int, *, paired: bool = False
) -> float | None:
    """The p value of the ratio test of two that were chosen among so many by what they show.

    Corrected for all pairs that there are (Bonferroni), so that of equal ones any two are called
    different in at most one of twenty cases at 0.05. None if nothing is known of the noise.
    """
    tested = ratio_test(first, second, paired=paired)
    return None if tested is None else min(1.0, tested.p * math.comb(among, 2))


def _t(freedom: float, confidence: float) -> float:
    """The quantile of Student's t that bounds the middle `confidence`."""
    from scipy.special import stdtrit

    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    return float(stdtrit(freedom, 1 - (1 - confidence) / 2))


def _exponential(value: float) -> float:
    """As `math.exp`, with the largest number where that is too large: nothing is known then."""
    return math.exp(min(value, _LARGEST))


def bootstrap(
    statistic: Callable[[Values], float],
    weights: Iterator[Values],
    size: int,
    confidence: float = 0.95,
    null: float = 1.0,
) -> tuple[Interval, float]:
    """Percentile bootstrap of any statistic of weighted observations, and the p value of `null`.

    `statistic` takes how often each of the `size` observations counts; `weights` yields one such
    array for each resample. Resamples whose statistic is not finite are left out. The p value is
    twice the smaller share of draws on a side of `null`, with one more draw than there are.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, sections 13.3 and 15.4.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    estimate = statistic(np.ones(size))
    drawn = np.array([statistic(weight) for weight in weights])
    drawn = drawn[np.isfinite(drawn)]
    if drawn.size == 0:
        return Interval(estimate, estimate, estimate, confidence), 1.0
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    beyond = min(int((drawn <= null).sum()), int((drawn >= null).sum()))
    p = min(1.0, 2 * (beyond + 1) / (drawn.size + 1))
    return Interval(estimate, float(low), float(high), confidence), p


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
