"""Baselines: what a load is like at full speed, one for each load level.

In print the baseline is learned while saving, too; here only windows at full speed teach it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

from reference.ieee import log2, over
from reference.stability import Sample

LEVEL_OVERLAP = 0.25
"""Beyond the edge of its level by so much of a level's width, a load has left it."""
LEVEL_MAX = 2**31 - 1


@dataclass(frozen=True)
class Baseline:
    """k samples at full speed, and all of them as one."""

    mean: Sample
    samples: tuple[Sample, ...]

    def noise(self, value: Callable[[Sample], float | None]) -> float:
        """`max_i |v_i - v| / v` over the samples whose value is known."""
        whole = value(self.mean)
        if whole is None:
            return 0.0
        known = [v for v in map(value, self.samples) if v is not None]
        return max([0.0, *(over(abs(v - whole), whole) for v in known)])


class Baselines:
    """The last baseline of each level, with its age in seconds."""

    def __init__(self, octaves: float, age_max_s: float) -> None:
        self.octaves = octaves
        self.age_max_s = age_max_s
        self.learned: dict[int, tuple[Baseline, float]] = {}

    def place(self, load: Sample) -> float:
        """Logarithm of the request rate, in widths of a level."""
        return log2(max(load.rate, sys.float_info.min)) / self.octaves

    def level_of(self, load: Sample, slower: float = 1.0) -> int:
        """The nearest level of a load whose rate at full speed is `slower` times what is seen."""
        place = self.place(load) + log2(slower) / self.octaves
        if math.isnan(place):
            return 0
        if abs(place) > LEVEL_MAX:
            return LEVEL_MAX if place > 0.0 else -LEVEL_MAX - 1
        return int(math.copysign(math.floor(abs(place) + 0.5), place))

    def still_at(self, level: int, load: Sample, slower: float) -> bool:
        """Whether any rate from what is seen to `slower` times that is at the level."""
        least = self.place(load)
        most = least + log2(max(slower, 1.0)) / self.octaves
        return least <= level + 0.5 + LEVEL_OVERLAP and most >= level - 0.5 - LEVEL_OVERLAP

    def learn(self, mean: Sample, samples: list[Sample]) -> int:
        level = self.level_of(mean)
        self.learned[level] = (Baseline(mean, tuple(samples)), 0.0)
        return level

    def grow_older(self, dt_s: float) -> None:
        self.learned = {at: (base, age + dt_s) for at, (base, age) in self.learned.items()}

    def known(self, level: int | None) -> Baseline | None:
        """None where nothing was learned, or what was is too old."""
        if level is None or level not in self.learned:
            return None
        baseline, age_s = self.learned[level]
        return baseline if age_s <= self.age_max_s else None
