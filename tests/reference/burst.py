"""The burst check (section IV-B): latency or utilisation leaps within one window.

Requests are counted over a tenth of a window, too, and those that are not answered yet tell what
those that are cannot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reference.limits import GroupSetting
from reference.stability import Sample

FEW = 6.0
"""The mean of one request is late from so many of full speed's means more on."""
OLD = 8.0
"""A request that waits for so many times a burst's mean is late whatever the spread."""


@dataclass(frozen=True)
class Late:
    """From when on requests are as late as those of a burst."""

    base_us: float
    limit_us: float
    in_flight: float

    def is_late(self, latency: Mapping[str, Any], requests_min: int) -> bool:
        """Of the completed requests and the oldest under way, if it waited longer than they took.

        `mean > limit + base FEW (1 / sqrt(n) - 1 / sqrt(requests_min))`, or too many under way.
        """
        times_us = [(latency["requests"], latency["latency_us_mean"] or 0.0)]
        oldest_s = latency.get("oldest_s") if latency.get("in_flight") is not None else None
        if oldest_s is not None and oldest_s * 1e6 > max(times_us[0][1], self.base_us):
            times_us.append((1, oldest_s * 1e6))
        count = sum(n for n, _ in times_us)
        if count > 0:
            mean_us = sum(n * us for n, us in times_us) / count
            few = max(1.0 / math.sqrt(count) - 1.0 / math.sqrt(requests_min), 0.0)
            if mean_us > self.limit_us + self.base_us * FEW * few:
                return True
        return self.is_crowded(latency.get("in_flight"), oldest_s)

    def is_crowded(self, in_flight: int | None, oldest_s: float | None) -> bool:
        """More under way than five standard deviations and five explain, or one for too long."""
        if in_flight is None:
            return False
        most = self.in_flight + 5.0 * math.sqrt(self.in_flight) + 5.0
        return in_flight > most or (oldest_s is not None and oldest_s * 1e6 > OLD * self.limit_us)


class Work:
    """What requests cost on the cores of each group: each window halves the past's weight."""

    def __init__(self, groups: int) -> None:
        self.core_s = [0.0] * groups
        self.requests = 0.0

    def learn(self, seen: Mapping[str, Any], requests: int, dt_s: float) -> None:
        if requests == 0:
            return
        self.requests = 0.5 * self.requests + requests
        for at, group in enumerate(seen["groups"][: len(self.core_s)]):
            core_s = group["utilisation_clients"] * group["cores"] * dt_s
            core_s = max(core_s, 0.0) if math.isfinite(core_s) else 0.0
            self.core_s[at] = 0.5 * self.core_s[at] + core_s

    def alarm_requests(
        self, mean: Sample, held: Sequence[GroupSetting], settings: Mapping[str, Any]
    ) -> int | None:
        """Requests within `burst_window` that close the window early."""
        span_s = settings["burst_window"]
        if mean.span_s <= 0.0:
            return None
        expected = mean.requests * (span_s / mean.span_s)
        most = [
            settings["burst_utilisation"] * cores * span_s * self.requests / core_s
            for (cores, _), core_s in zip(held, self.core_s, strict=True)
            if core_s > 0.0
        ]
        fewest = min(most, default=math.inf)
        alarm = max(
            fewest * settings["burst_alarm"] if math.isfinite(fewest) else 0.0,
            expected * (1.0 + settings["rate_change"]),
            expected + 5.0 * math.sqrt(expected),
        )
        # A count of requests has 64 bits.
        return min(math.ceil(alarm), 2**64 - 1) if math.isfinite(alarm) else None
