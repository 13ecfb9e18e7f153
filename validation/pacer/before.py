"""What the readings were before the background work was fitted, to tell what the fit made worse.

With the 30 cores' worth of background work that was assumed until then; the law and the loads are
the study's, the seed is 1. Readings that background work does not move are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattio.analysis.statistics import Interval

from validation.common import published
from validation.pacer.entries import Compared

NOISE_PERCENT = 0.5
"""A deviation that changed by no more than this is neither better nor worse."""

_LOW, _HIGH = "at 3 % pressure", "at 10 % pressure"
_MLPERF = "results.mlperf_power_reduction_percent"

BEFORE: dict[tuple[str, str], float] = {
    ("results.trace_iops_per_watt.pacer", "PACER"): 1.301,
    ("results.trace_average_latency.pacer", "PACER"): 1.106,
    ("results.trace_iops_per_watt.ondemand", "ondemand"): 1.016,
    ("results.trace_average_latency.ondemand", "ondemand"): 1.142,
    ("results.access_patterns_iops_per_watt_geomean.pacer", _LOW): 1.366,
    ("results.access_patterns_iops_per_watt_geomean.pacer", _HIGH): 1.295,
    ("results.access_patterns_iops_per_watt_geomean.ondemand", _LOW): 1.018,
    ("results.access_patterns_iops_per_watt_geomean.ondemand", _HIGH): 1.015,
    ("results.rand_rw_max_latency_increase_percent", _LOW): 12.32,
    ("results.rand_rw_max_latency_increase_percent", _HIGH): 9.68,
    ("results.rand_rw_power_saving_percent", _LOW): 27.11,
    ("results.rand_rw_power_saving_percent", _HIGH): 22.72,
    (f"{_MLPERF}_3dunet.pacer", "ASSUMED pressure"): 20.86,
    (f"{_MLPERF}_3dunet.ondemand", "ASSUMED pressure"): 1.38,
    (f"{_MLPERF}_bert.pacer", "ASSUMED pressure"): 27.44,
    (f"{_MLPERF}_bert.ondemand", "ASSUMED pressure"): 1.81,
}
"""Key of the published number and label of the reading; in the unit of the entry."""


@dataclass(frozen=True)
class Moved:
    """A reading that the fit moved: its deviation from the published number before and now."""

    quantity: str
    label: str
    before_percent: float
    now_percent: float

    @property
    def named(self) -> str:
        """The quantity, with the reading's label where that says more."""
        return self.quantity if self.label in self.quantity else f"{self.quantity} {self.label}"

    @property
    def worse(self) -> bool:
        """Whether it is further from the published number now."""
        return abs(self.now_percent) > abs(self.before_percent)


def moved(compared: list[Compared]) -> list[Moved]:
    """Every reading whose deviation the fit changed beyond NOISE_PERCENT."""
    found = []
    for row in compared:
        for reading in row.readings:
            before = BEFORE.get((row.entry.key, reading.label))
            if before is None or not isinstance(reading.value, Interval):
                continue
            then = published.deviation_percent(before, float(row.value))
            now = row.deviation_percent(reading)
            if then is not None and now is not None and abs(abs(now) - abs(then)) > NOISE_PERCENT:
                found.append(Moved(row.entry.quantity, reading.label, then, now))
    return found
