"""Power samples over a phase: energy, distribution, and what is wrong with them.

Times are in seconds on one clock (any origin), ascending; `power_w` is NaN where a sample has no
power of its own, `energy_j` counts from any origin and is NaN for a meter that does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]


@dataclass(frozen=True)
class Distribution:
    """How the power samples within a phase are spread, in watts. `deviation_w` needs two."""

    count: int
    minimum_w: float
    quartile_w: float
    median_w: float
    upper_quartile_w: float
    maximum_w: float
    deviation_w: float | None


def energy_between(time_s: Series, power_w: Series, start_s: float, end_s: float) -> float | None:
    """Energy between two moments in joules, by the trapezoidal rule over real time stamps.

    Power at the two ends is interpolated between the samples around them, or that of the nearest
    sample where there is none beyond. None if there is no sample at all. Raises ValueError
    where `end_s` is before `start_s`. Source: the thesis, section 6.5, and the EEHPC methodology.
    """
    if end_s < start_s:
        raise ValueError("a phase ends before it starts")
    known = ~np.isnan(power_w)
    time_s, power_w = time_s[known], power_w[known]
    if time_s.size == 0:
        return None
    inside = (time_s > start_s) & (time_s < end_s)
    ends_w = np.interp([start_s, end_s], time_s, power_w)
    times = np.concatenate([[start_s], time_s[inside], [end_s]])
    powers = np.concatenate([ends_w[:1], power_w[inside], ends_w[1:]])
    return float(np.sum(np.diff(times) * (powers[1:] + powers[:-1]) / 2))


def energy_counted(time_s: Series, energy_j: Series, start_s: float, end_s: float) -> float | None:
    """Energy between two moments in joules, from a counter that was read at `time_s`.

    The counter is interpolated at both ends. None if it was not read both before and after,
    or where it fell in between (it began anew).
    """
    known = ~np.isnan(energy_j)
    time_s, energy_j = time_s[known], energy_j[known]
    first = int(np.searchsorted(time_s, start_s, side="right")) - 1
    last = int(np.searchsorted(time_s, end_s, side="left"))
    if first < 0 or last >= time_s.size:
        return None
    if (np.diff(energy_j[first : last + 1]) < 0).any():
        return None
    start_j, end_j = np.interp([start_s, end_s], time_s, energy_j)
    return float(end_j - start_j)


def distribution(power_w: Series) -> Distribution | None:
    """The spread of power samples; None if there is none."""
    known = power_w[~np.isnan(power_w)]
    if known.size == 0:
        return None
    low, quartile, median, upper, high = np.quantile(known, [0, 0.25, 0.5, 0.75, 1])
    deviation = float(np.std(known, ddof=1)) if known.size > 1 else None
    spread = (float(low), float(quartile), float(median), float(upper), float(high))
    return Distribution(int(known.size), *spread, deviation)


def longest_gap(time_s: Series, start_s: float, end_s: float) -> float:
    """The longest time within a phase without a sample, in seconds.

    Counted from the last sample before the phase and to the first one after it, where there are
    such; a phase without any sample around it is one gap.
    """
    first = max(int(np.searchsorted(time_s, start_s, side="right")) - 1, 0)
    last = int(np.searchsorted(time_s, end_s, side="left"))
    around = time_s[first : last + 1]
    if around.size == 0:
        return end_s - start_s
    gaps = np.diff(around)
    ends = [around[0] - start_s, end_s - around[-1]]
    return float(max([*gaps, *ends, 0.0]))


def missing_share(time_s: Series, start_s: float, end_s: float, interval_s: float) -> float:
    """Share of the samples that a phase should hold at an interval, and does not.

    A phase of n whole intervals holds n samples wherever it begins; fewer than one is not asked.
    """
    expected = int((end_s - start_s) / interval_s)
    if expected < 1:
        return 0.0
    found = int(np.count_nonzero((time_s >= start_s) & (time_s <= end_s)))
    return max(0.0, (expected - found) / expected)


def standstills(time_s: Series, value: Series, least_s: float) -> list[tuple[float, float]]:
    """Stretches of at least `least_s` over which a value never changes: first and last sample.

    Samples without a value (NaN) end a stretch.
    """
    if time_s.size == 0:
        return []
    changed = np.flatnonzero(~(np.diff(value) == 0)) + 1
    starts = np.concatenate([[0], changed])
    ends = np.concatenate([changed - 1, [time_s.size - 1]])
    long = (time_s[ends] - time_s[starts] >= least_s) & (ends > starts)
    return [
        (float(time_s[a]), float(time_s[b])) for a, b in zip(starts[long], ends[long], strict=True)
    ]


def clock_jump(utc_ns: NDArray[np.int64], monotonic_ns: NDArray[np.int64]) -> float:
    """The largest step of the wall clock against the monotonic one between samples, in seconds."""
    if utc_ns.size < 2:
        return 0.0
    steps_ns = np.diff(utc_ns - monotonic_ns)
    return float(np.max(np.abs(steps_ns))) / 1e9
