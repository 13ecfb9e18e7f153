"""What is promised, and how far latency is from it (section IV-C, for any kind of bound).

In print there is one bound: the mean, `plf` above the baseline, over the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reference.baseline import Baseline
from reference.histograms import quantile_within_us, width_us
from reference.ieee import over
from reference.stability import Sample

BEYOND_QUANTILE = 5.0
"""Requests beyond a quantile that a sample needs."""
SHARE_MIN = 1e-3
"""A share that is less is no room to steer in."""
NOISE = 3.0
"""A window's bound is steered at so many times the noise below it."""
UNSURE = 2.0
"""A bound is steered so many standard deviations of the baseline below itself."""
QUANTILE_ERROR = 2.0
"""The error of a quantile over that of a mean."""


def loss(l_cur: float, l_baseline: float) -> float:
    """`loss_cur = (l_cur - l_baseline) / l_baseline`."""
    return over(l_cur - l_baseline, l_baseline)


def loss_distance(plf: float, loss_cur: float) -> float:
    """`loss_distance = (plf - loss_cur) / plf`."""
    return (plf - loss_cur) / plf


@dataclass(frozen=True)
class Bound:
    """On the mean (no quantile) or a quantile; a share above full speed, or a limit."""

    quantile: float | None
    share: float | None
    limit_us: float | None
    in_each_window: bool

    def of(self, sample: Sample) -> float | None:
        """The statistic that is bounded, in microseconds, where it is known."""
        if self.quantile is None:
            return sample.latency_us
        histogram = sample.histogram
        return None if histogram is None else quantile_within_us(histogram, self.quantile)

    def share_over(self, base_us: float) -> float:
        """How far the bound lies above what full speed has."""
        if self.share is not None:
            return self.share
        return over(self.limit_us or 0.0, base_us) - 1.0

    def coarseness(self, sample: Sample, base_us: float) -> float:
        """The width of the bucket of a quantile, as a share: where in it they lie is unknown."""
        histogram = sample.histogram
        if self.quantile is None or histogram is None:
            return 0.0
        return over(width_us(histogram, self.quantile) or 0.0, base_us)


class Promise:
    """The bounds that are steered by."""

    def __init__(self, settings: Mapping[str, Any], bounds: Sequence[Bound] = ()) -> None:
        self.settings = settings
        self.bounds = list(bounds) or [Bound(None, settings["plf"], None, False)]

    def is_for_windows(self) -> bool:
        return any(bound.in_each_window for bound in self.bounds)

    def has_quantile(self) -> bool:
        return any(bound.quantile is not None for bound in self.bounds)

    def requests_min(self) -> int:
        """Requests that a sample needs, to say something about every bound."""
        quantiles = [bound.quantile for bound in self.bounds if bound.quantile is not None]
        needed = [math.ceil(BEYOND_QUANTILE / (1.0 - quantile)) for quantile in quantiles]
        return max([int(self.settings["requests_min"]), *needed])

    def distance(
        self, last: Sample, lately: Sample, full_speed: Baseline, translation: float
    ) -> float | None:
        """The least loss distance of all bounds; None where one cannot be judged."""
        distances = [
            self.distance_of(bound, last, lately, full_speed, translation) for bound in self.bounds
        ]
        known = [distance for distance in distances if distance is not None]
        return min(known) if len(known) == len(distances) else None

    def distance_of(
        self, bound: Bound, last: Sample, lately: Sample, full_speed: Baseline, translation: float
    ) -> float | None:
        """`loss_distance(share - headroom, loss)`, from `loss_distance_min` to 1.

        The headroom is the largest of a part of the share, of what the baseline is unsure by, and,
        where each window counts, of what windows differ by.
        """
        learned_us = bound.of(full_speed.mean)
        histogram = (last if bound.in_each_window else lately).histogram
        if learned_us is None or (bound.quantile is not None and histogram is None):
            return None
        base_us = learned_us * translation
        value_us: float | None = last.latency_us
        if bound.quantile is not None and histogram is not None:
            value_us = quantile_within_us(histogram, bound.quantile)
        least = float(self.settings["loss_distance_min"])
        if value_us is None:
            # Beyond the last bucket's edge is too far.
            return least
        share = bound.share_over(base_us)
        noise = 0.0
        if bound.in_each_window:
            noise = NOISE * full_speed.noise(bound.of)
            noise += bound.coarseness(full_speed.mean, base_us)
        errors = 1.0 if bound.quantile is None else QUANTILE_ERROR
        unsure = UNSURE * full_speed.mean.error * errors
        share -= max(share * self.settings["bound_headroom"], unsure, noise)
        if share < SHARE_MIN:
            return least
        return float(min(max(loss_distance(share, loss(value_us, base_us)), least), 1.0))

    def share(self, full_speed: Baseline, translation: float) -> float:
        """The least share above full speed that is promised: of the mean, else of quantiles.

        Below 0 where full speed itself is over a limit.
        """
        for of_mean in (True, False):
            bounds = [bound for bound in self.bounds if (bound.quantile is None) == of_mean]
            shares = [
                bound.share_over(base_us * translation)
                for bound, base_us in ((bound, bound.of(full_speed.mean)) for bound in bounds)
                if base_us is not None
            ]
            if shares:
                return min(shares)
        return 0.0
