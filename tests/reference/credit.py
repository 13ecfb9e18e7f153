"""What the promise over the run has left for requests that end an idle time.

In print idle has no bound. Here what the requests that end it are likely to wait must fit in a part
of the latency that was allowed so far less what was spent, summed over requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reference.limits import GroupSetting, Limits

PART = 0.5
"""The part of what is left that one idle time may cost."""
MEMORY = 0.9


class Credit:
    """All windows with requests: requests, mean latency, and rate."""

    def __init__(self) -> None:
        self.windows: list[tuple[int, float, float | None]] = []
        self.rates: list[float] = []
        self.base_us: float | None = None
        self.promised_us: float | None = None

    def account(
        self, latency: Mapping[str, Any], base_us: float | None, share: float, dt_s: float
    ) -> None:
        """A window; `base_us` is what its mix has at full speed, None where that is not known."""
        if base_us is not None:
            self.base_us, self.promised_us = base_us, base_us * (1.0 + share)
        if latency["requests"] == 0:
            return
        if dt_s > 0.0:
            self.rates.append(latency["requests"] / dt_s)
        window = (latency["requests"], latency["latency_us_mean"], self.promised_us)
        self.windows.append(window)

    def rate(self) -> float:
        """Requests a second while there were any: a mean, 0.9 for each window since.

        The first window is taken for all time before.
        """
        n = len(self.rates)
        shares = [1.0 if at == 0 else 1.0 - MEMORY for at in range(n)]
        weights = [share * MEMORY ** (n - 1 - at) for at, share in enumerate(shares)]
        return sum(w * rate for w, rate in zip(weights, self.rates, strict=True))

    def left_us(self) -> float:
        """`sum n (promised - mean)`, by the promise that was known when the window ended.

        Windows from before anything was known are held against the first promise that was.
        """
        known = [promised for _, _, promised in self.windows if promised is not None]
        if not known:
            return 0.0
        return sum(
            n * ((known[0] if promised is None else promised) - mean_us)
            for n, mean_us, promised in self.windows
        )

    def affords(
        self,
        rest: Sequence[GroupSetting],
        for_windows: bool,
        limits: Limits,
        settings: Mapping[str, Any],
    ) -> tuple[bool, bool]:
        """Whether cores, and whether drives, may rest in an idle server.

        As printed, idle has no bound; and nothing was promised to who never asked. A bound on each
        window leaves nothing.
        """
        if not settings["coordinated"] or not self.rates:
            return (True, True)
        left_us = 0.0 if for_windows else PART * self.left_us()
        cores_us = self.cores_cost_us(rest, limits, settings)
        drives_us = 0.0
        if limits.drives is not None:
            wake_s = limits.drives.wake_s
            # Drives one after the other, each by a request that waits for all of it, and who comes
            # meanwhile waits for half of the time.
            waits = limits.drives.count + self.rate() * wake_s * 0.5
            drives_us = waits * wake_s * 1e6
        cores = cores_us <= left_us
        return (cores, drives_us + (cores_us if cores else 0.0) <= left_us)

    def cores_cost_us(
        self, rest: Sequence[GroupSetting], limits: Limits, settings: Mapping[str, Any]
    ) -> float:
        """Requests until cores are back, and what each waits: it is slower by the lower frequency,
        and waits for half of the time where the fewest cores are more than half full.
        """
        base_us = self.base_us or 0.0
        react_s = settings["burst_window"] * 0.5 + limits.gate_on_s
        slower = 1.0
        for (_, frequency), limit in zip(rest, limits.groups, strict=True):
            c = limit.frequency_bound_share
            slower = max(slower, 1.0 - c + c * (limit.frequency_max / frequency))
        cores = min((float(n) for n, _ in rest), default=math.inf)
        is_overrun = self.rate() * base_us * 1e-6 * slower > 0.5 * cores
        waits_us = react_s * 0.5 * 1e6 if is_overrun else 0.0
        return float((1.0 + self.rate() * react_s) * (base_us * (slower - 1.0) + waits_us))
