"""Clients that wait for their answers before they ask again.

Their rate follows the latency that the law causes. Where it does, the energy of a request counts,
which must not rise, and the rate that full speed would have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reference.adaptors import utilisation
from reference.baseline import Baseline
from reference.ieee import ln, over
from reference.limits import Limits
from reference.stability import Sample

MEMORY = 0.95
CLOSED = 0.5
WINDOWS_MIN = 5.0
SURE = 3.0
ENERGY_NOISE = 0.003
ENERGY_LEAK = 1e-4
TELLERS = ("meter", "table")
"""Who tell what is drawn; the first who told of both is gone by."""


class ClosedLoop:
    """The fall of the rate against the growth of the latency, and the energy of requests."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.windows: list[tuple[float, float]] = []
        self.energy_j_least: dict[str, float] = {}
        self.settled = 0

    def learn(self, window: Sample, full_speed: Baseline, base_us: float) -> None:
        growth = ln(over(window.latency_us, base_us))
        fall = ln(over(full_speed.mean.rate, window.rate))
        if math.isfinite(growth) and math.isfinite(fall):
            self.windows.append((growth, fall))

    def sureness(self) -> float:
        """Standard deviations by which the rate's part in the latency's growth is above a half.

        Of the changes from window to window, with w = 0.95 for each window since, the part is
        `sum w fall growth / sum w growth^2`, and its error the root of the mean square fall that
        it leaves over `sum w growth^2`.
        """
        pairs = list(zip(self.windows, self.windows[1:], strict=False))
        n = len(pairs)
        changes = [
            (MEMORY ** (n - 1 - at), after[0] - before[0], after[1] - before[1])
            for at, (before, after) in enumerate(pairs)
        ]
        squares = sum(w * growth * growth for w, growth, _ in changes)
        weight = sum(w for w, _, _ in changes)
        if squares <= 0.0 or weight < WINDOWS_MIN:
            return 0.0
        part = sum(w * fall * growth for w, growth, fall in changes) / squares
        left = sum(w * (fall - part * growth) ** 2 for w, growth, fall in changes) / weight
        return (part - CLOSED) * math.sqrt(over(squares, left))

    def is_closed(self) -> bool:
        return self.sureness() > SURE

    def is_open(self) -> bool:
        return self.sureness() < -SURE

    def advise(self, lately: Sample, full_speed: Baseline, windows: int) -> str | None:
        """ "wait" for k samples after each step, then "go" or "back"; None for open loads.

        And None where nobody knew what is drawn at full speed. Back: a request takes more than the
        least energy that was seen, at full speed or since, which is forgotten slowly. A meter's
        word is held against its own, and where it did not tell of both, the table's against the
        table's; "wait" where neither told of both.
        """
        if not self.is_closed():
            self.settled = 0
            return None
        at_full_speed, now = full_speed.mean.energy_of_request_j, lately.energy_of_request_j
        if not at_full_speed:
            return None
        teller = next((by for by in TELLERS if by in at_full_speed and by in now), None)
        if teller is None:
            return "wait"
        base_j, now_j = at_full_speed[teller], now[teller]
        self.settled += 1
        if self.settled <= windows:
            return "wait"
        self.settled = 0
        before_j = self.energy_j_least.get(teller, base_j)
        least_j = min(before_j * (1.0 + ENERGY_LEAK), now_j, base_j)
        self.energy_j_least[teller] = least_j
        return "back" if now_j > least_j * (1.0 + ENERGY_NOISE) else "go"


def powers_w(seen: Mapping[str, Any], limits: Limits) -> dict[str, float]:
    """What is drawn, by each who tells: a meter, and what the limits say of cores and drives."""
    told = {"meter": seen.get("power_w"), "table": power_by_table_w(seen, limits)}
    return {by: float(watts) for by, watts in told.items() if watts is not None}


def power_by_table_w(seen: Mapping[str, Any], limits: Limits) -> float | None:
    """What cores draw as they are, and drives at the least."""
    watts = 0.0 if limits.drives is None else limits.drives.saves_w
    for group, limit in zip(seen["groups"], limits.groups, strict=False):
        running_w, idle_w = limit.draws(group["frequency_hz"])
        busy = min(max(utilisation(group), 0.0), 1.0)
        watts += (idle_w + (running_w - idle_w) * busy) * group["cores"]
    return watts if watts > 0.0 else None
