"""How much faster an application is on more cores or nodes: measured points, or a form.

The document's scalability S(k) is the speedup over k; S may exceed 1, where a smaller part of the
domain fits a cache better (its figure 8a, from 2 to 12 cores).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wattio.errors import InputError
from wattio.models.parameter import Parameter, Values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = NDArray[np.float64] | float
else:
    Number = Any


@dataclass(frozen=True)
class Form:
    """f(k) = k / (1 + sigma (k - 1)): Amdahl's law, sigma being the share that is not divided.

    A sigma below zero is a speedup above k.
    """

    sigma: Parameter

    @property
    def parameters(self) -> list[Parameter]:
        """What it takes."""
        return [self.sigma]

    def speedup(self, count: int, values: Values) -> Number:
        """The speedup on so many; raises InputError where the form has none."""
        if 1 + self.sigma.low * (count - 1) <= 0:
            raise InputError(
                f"{self.sigma.name}: {self.sigma.low:g} gives no speedup on {count};"
                f" allowed: above {-1 / (count - 1):.3g}"
            )
        return count / (1 + values[self.sigma.name] * (count - 1))


@dataclass(frozen=True)
class Points:
    """Measured speedups on some counts, in rising order; between two of them a straight line."""

    what: str
    counts: Sequence[int]
    speedups: Sequence[Parameter]

    @property
    def parameters(self) -> list[Parameter]:
        """What it takes."""
        return list(self.speedups)

    def speedup(self, count: int, values: Values) -> Number:
        """The speedup on so many; raises InputError beyond the measured counts."""
        if not self.counts[0] <= count <= self.counts[-1]:
            raise InputError(
                f"the speedup over {self.what} was given from {self.counts[0]} to"
                f" {self.counts[-1]}, but {count} are asked for; give a point there, or sigma"
            )
        above = next(place for place, known in enumerate(self.counts) if known >= count)
        upper = values[self.speedups[above].name]
        if self.counts[above] == count:
            return upper
        below = above - 1
        part = (count - self.counts[below]) / (self.counts[above] - self.counts[below])
        lower = values[self.speedups[below].name]
        return lower + part * (upper - lower)


Scalability = Form | Points
