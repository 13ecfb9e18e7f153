"""Whether two sides differ where their values rest on a power model: noise, and the model's range.

The coefficients of a model are not known, but where they may lie is: in a box. Two sides that were
estimated on one machine are estimated with the same coefficients, whatever these are. So they are
told apart where they are with every choice of coefficients: with each, the same one is the lesser,
by more than its repetitions spread (the t test of `statistics.ratio_test`). It is enough to look at
the corners of the box: energy is linear in the coefficients, and so is the difference of means,
while its standard error is the length of a vector that is linear in them; where the difference
exceeds so many standard errors is therefore a convex set, which holds a box if it holds its
corners (of efficiencies and products with a power of time, and with Welch's degrees of freedom,
which change along the box, nearly so).

Sides that were estimated on different machines, or by different models, may each be off in another
way: each has the whole of its range for itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from wattio.analysis import statistics
from wattio.analysis.statistics import Interval, RatioTest


@dataclass(frozen=True)
class Ranged:
    """The values of repetitions at each corner of the box; `model` is the same for the same box.

    The first corner has all coefficients at their least, the last one at their most.
    """

    model: float
    corners: tuple[tuple[float, ...], ...]

    def means(self) -> list[float]:
        """The mean over repetitions at each corner."""
        return [math.fsum(values) / len(values) for values in self.corners]


class Sampled(Protocol):
    """Values of repetitions; `ranged` where they rest on a model."""

    @property
    def values(self) -> tuple[float, ...]:
        """One of each repetition, as the model has it."""

    @property
    def ranged(self) -> Ranged | None:
        """What they may be instead."""


@dataclass(frozen=True)
class Sample:
    """Values by themselves."""

    values: tuple[float, ...]
    ranged: Ranged | None = None


@dataclass(frozen=True)
class RangedTest:
    """A ratio test at every corner; `nominal` is that with the model as it stands.

    `low` and `high` are the least and the most that the ratio of means may be, `tests` is empty
    where nothing is known of the noise.
    """

    ratio: float
    low: float
    high: float
    nominal: RatioTest | None
    tests: tuple[RatioTest, ...] = field(default=(), repr=False)

    @property
    def is_open(self) -> bool:
        """Whether either side may be the lesser one, repetitions aside."""
        return self.low <= 1 <= self.high

    @cached_property
    def p(self) -> float | None:
        """The largest p value of any choice of coefficients, 1 where the order is not the same."""
        if not self.tests:
            return None
        return 1.0 if self.is_open else max(tested.p for tested in self.tests)

    def interval(self, confidence: float = 0.95) -> Interval | None:
        """From the least to the most of the intervals at all corners."""
        if not self.tests:
            return None
        found = [tested.interval(confidence) for tested in self.tests]
        low, high = min(one.low for one in found), max(one.high for one in found)
        return Interval(self.ratio, low, high, confidence)

    def is_the_models(self, level: float, tests: int = 1) -> bool:
        """Whether it is for the model's range that sides are not told apart, at a level.

        Either may be the lesser one; or repetitions tell them apart with the coefficients as they
        stand, but not with all that they may be. `tests` is how many p values are corrected for.
        """
        if self.is_open:
            return True
        if self.nominal is None or self.p is None:
            return False
        return self.nominal.p * tests < level <= self.p * tests

    def why(self, first: str, second: str, quantity: str) -> str:
        """What the range comes to, in words."""
        text = f"with its coefficients anywhere in their ranges, {second} has {self.low:.2f} to"
        text += f" {self.high:.2f} times the {quantity} of {first}"
        return text if self.is_open else f"{text}, and repetitions spread by as much as is left"


def compared(
    first: Sampled, second: Sampled, *, paired: bool = False
) -> RatioTest | RangedTest | None:
    """The test of the ratio of means, `second` over `first`; None if nothing is known of it."""
    nominal = statistics.ratio_test(first.values, second.values, paired=paired)
    pairs = _corners(first, second)
    if not pairs:
        return nominal
    ratios = [_mean(right) / _mean(left) for left, right in pairs if _mean(left) > 0]
    if len(ratios) < len(pairs) or _mean(first.values) <= 0:
        return nominal
    tests = [statistics.ratio_test(left, right, paired=paired) for left, right in pairs]
    known = tuple(tested for tested in tests if tested is not None)
    ratio = _mean(second.values) / _mean(first.values)
    whole = known if len(known) == len(tests) else ()
    return RangedTest(ratio, min(ratios), max(ratios), nominal, whole)


def chosen_p(first: Sampled, second: Sampled, among: int, *, paired: bool = False) -> float | None:
    """As `statistics.chosen_p`, for values that may rest on a model."""
    tested = compared(first, second, paired=paired)
    p = None if tested is None else tested.p
    return None if p is None else min(1.0, p * math.comb(among, 2))


def untold(
    first: Sampled, second: Sampled, among: int, level: float, *, paired: bool = False
) -> RangedTest | None:
    """The test of two that the estimate cannot tell apart; None of others.

    `among` is how many the two were chosen from, `level` that of the p value.
    """
    tested = compared(first, second, paired=paired)
    if not isinstance(tested, RangedTest):
        return None
    return tested if tested.is_the_models(level, math.comb(among, 2)) else None


def _corners(first: Sampled, second: Sampled) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Values of both sides with each choice of coefficients that matters."""
    left, right = first.ranged, second.ranged
    if left is not None and right is not None and left.model == right.model >= 0:
        return list(zip(left.corners, right.corners, strict=True))
    if left is None and right is None:
        return []
    lefts = [first.values] if left is None else [left.corners[0], left.corners[-1]]
    rights = [second.values] if right is None else [right.corners[0], right.corners[-1]]
    return [(one, other) for one in lefts for other in rights]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
