"""Numbers that a model takes: with an interval, and whether they were measured or assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wattio.analysis.statistics import Interval

Origin = Literal["measured", "published", "assumed"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)

_EXPONENT_MAX = 700.0
"""The natural logarithm of the largest numbers that there are is about 709."""

CONFIDENCE = 0.95
"""Of the intervals that are told of what was drawn."""

NORMAL_95 = 1.959963984540054
"""Standard deviations on either side that hold 95 % of a normal distribution."""

WIDE = 10.0
"""A range that spans a factor above this is known by its order of magnitude only."""


@dataclass(frozen=True)
class Parameter:
    """A number with the interval it lies in, where it comes from and how it was found.

    The unit is part of the name, as in `base_s`. `low` and `high` are the ends of a 95 % interval
    of what was measured, and of the range of what is published or assumed. `least` and `most` are
    what the number can be at all. Raises ValueError where they are not in order.
    """

    name: str
    value: float
    low: float
    high: float
    origin: Origin
    how: str = ""
    least: float = 0.0
    most: float = math.inf

    def __post_init__(self) -> None:
        """Refuse what is no interval around the value."""
        if not self.least <= self.low <= self.value <= self.high <= self.most:
            raise ValueError(
                f"{self.name}: the interval {self.low:g} to {self.high:g} does not contain the"
                f" value {self.value:g}, or leaves {self.least:g} to {self.most:g}"
            )

    @property
    def is_certain(self) -> bool:
        """Whether the interval has no width."""
        return self.low == self.high

    def quantile(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers below which these shares (0 to 1) of the parameter's distribution lie.

        What was measured is normal on either side of its value, with half of the distribution
        below it and 2.5 % beyond each end, cut off at `least` and `most`; of what is above zero,
        its logarithm is. What is published or assumed is even over its range, or over its
        logarithm where it spans a factor above ten.
        """
        import numpy as np

        if self.is_certain:
            return np.full(shares.shape, self.value)
        if self.origin != "measured" and self.high > WIDE * self.low > 0:
            # The ratio of the ends may be beyond all numbers; their powers are not.
            return np.asarray(self.low ** (1 - shares) * self.high**shares)
        if self.origin != "measured":
            return self.low + shares * (self.high - self.low)
        from scipy.special import ndtri

        deviations = ndtri(np.clip(shares, 1e-9, 1 - 1e-9)) / NORMAL_95
        if self.low > 0:
            # Logarithms all the way: ends that are far apart would leave the range of numbers.
            low, value, high = np.log([self.low, self.value, self.high])
            found = value + deviations * np.where(deviations < 0, value - low, high - value)
            found = np.exp(np.clip(found, -_EXPONENT_MAX, _EXPONENT_MAX))
        else:
            below, above = self.value - self.low, self.high - self.value
            found = self.value + deviations * np.where(deviations < 0, below, above)
        kept: NDArray[np.float64] = found.clip(self.least, self.most)
        return kept


Values = Mapping[str, "NDArray[np.float64] | float"]
"""A number, or one for each draw, for each parameter by its name."""


def central(parameters: Sequence[Parameter]) -> dict[str, float]:
    """The value of each parameter."""
    return {parameter.name: parameter.value for parameter in parameters}


def draw(parameters: Sequence[Parameter], draws: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Independent draws of every parameter, the same for the same names, count and seed.

    Each has a stream of its own, so that one more parameter does not change what the others draw.
    """
    import zlib

    import numpy as np

    drawn = {}
    for parameter in parameters:
        stream = np.random.default_rng([seed, zlib.crc32(parameter.name.encode())])
        drawn[parameter.name] = parameter.quantile(stream.random(draws))
    return drawn


def interval(drawn: NDArray[np.float64] | float) -> Interval:
    """Median and 95 % interval of what was drawn."""
    import numpy as np

    from wattio.analysis.statistics import Interval

    low, median, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, 0.5, (1 + CONFIDENCE) / 2])
    return Interval(float(median), float(low), float(high), CONFIDENCE)


def by_origin(parameters: Sequence[Parameter]) -> dict[Origin, list[str]]:
    """Names of the parameters of each origin, in their order."""
    return {
        origin: [parameter.name for parameter in parameters if parameter.origin == origin]
        for origin in ORIGINS
    }
