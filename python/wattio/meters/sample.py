"""What samples of all kinds of meter share: their moment, what can be true, counting up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from wattio.clock import Instant
from wattio.meters.meter import BadReading, MeterLost

POWER_W_MAX = 10e6
"""The most that anything is believed to draw: the feed of a large machine room."""

HOST_POWER_W_MAX = 100e3
"""The most that one machine is believed to draw."""


def midway(before: Instant, after: Instant) -> Instant:
    """The moment of a value that was asked for and answered: halfway between."""
    utc_ns = before.utc_ns + (after.utc_ns - before.utc_ns) // 2
    monotonic_ns = before.monotonic_ns + (after.monotonic_ns - before.monotonic_ns) // 2
    return Instant(utc_ns, monotonic_ns)


def plausible(power_w: float, meter: str, most_w: float = POWER_W_MAX) -> float:
    """A power that can be true, in watts. Raises BadReading for what cannot."""
    if not math.isfinite(power_w) or not 0 <= power_w <= most_w:
        raise BadReading(f"{meter}: reports {power_w:.6g} W; allowed: 0 to {most_w:.0f} W")
    return power_w


@dataclass
class EnergyCounter:
    """Joules since the first count of a counter that goes up, and wraps after `range` counts.

    A counter that went back has wrapped, unless that would mean an impossible power: then it was
    set back, what passed meanwhile is not known, and counting goes on from there.
    """

    meter: str
    joules_per_count: float
    range: int
    _last: tuple[int, int] | None = field(default=None, init=False)
    _counted: int = field(default=0, init=False)

    def take(self, count: int, at: Instant) -> tuple[float | None, float]:
        """Mean power in watts since the count before (None at first), and joules since the first.

        Raises MeterLost where the counter was set back, or leaps.
        """
        before, self._last = self._last, (count, at.monotonic_ns)
        if before is None:
            return None, self.energy_j
        last_count, last_ns = before
        wrapped = count < last_count
        grown = count - last_count + (self.range if wrapped else 0)
        seconds = (at.monotonic_ns - last_ns) / 1e9
        if grown < 0 or grown * self.joules_per_count > POWER_W_MAX * max(seconds, 1.0):
            how = "was reset" if wrapped else "jumped"
            raise MeterLost(f"{self.meter}: its counter {how} from {last_count} to {count}")
        self._counted += grown
        power_w = grown * self.joules_per_count / seconds if seconds > 0 else None
        return power_w, self.energy_j

    @property
    def energy_j(self) -> float:
        """Joules since the first count."""
        return self._counted * self.joules_per_count
