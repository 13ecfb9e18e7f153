"""What load on fewer servers would add: an estimate, bounded by what moving it costs.

The power of a server is taken for a line over its load, fitted for each description to the fleet's
own result. Loads of one description are put together until no server exceeds a share of its
saturated rate at its busiest; peaks are taken to come together, which needs more servers than a
plan by the hour would. The others are switched off. Moving a server's data costs the moving time at
the moving power, once for each time that a placement stays. Latency is not looked at beyond the
share of the saturated rate, nor memory, capacity, locality or failure domains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattio.kinds.fleet.schema import PlacingEntry

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Placement:
    """The estimate for the servers of one description under one policy."""

    servers: int
    servers_needed: int
    power_w: float
    # Of those needed, with the moving and with what those that are off draw.
    power_w_placed: float
    moving_w: float


def estimate(
    power_w: Values, mean_load: Values, peak_load: Values, entry: PlacingEntry
) -> Placement:
    """What servers of one description would draw; loads are shares of the saturated rate."""
    count = len(power_w)
    needed = min(count, max(1, math.ceil(float(peak_load.sum()) / entry.pressure_max)))
    idle_w, slope_w = line(mean_load, power_w)
    off = count - needed
    moving_j = entry.data / entry.rate * entry.moving_power
    moving_w = off * moving_j / entry.stays
    placed_w = needed * idle_w + slope_w * float(mean_load.sum()) + off * entry.off_power + moving_w
    present_w = float(power_w.sum())
    if placed_w >= present_w:
        return Placement(count, count, present_w, present_w, 0.0)
    return Placement(count, needed, present_w, placed_w, moving_w)


def line(load: Values, power_w: Values) -> tuple[float, float]:
    """Power without load, and what a load of 1 adds, by least squares; never falling."""
    spread = load - load.mean()
    square = float((spread**2).sum())
    slope = float((spread * power_w).sum()) / square if square > 1e-12 else 0.0
    slope = max(slope, 0.0)
    return float(power_w.mean()) - slope * float(load.mean()), slope
