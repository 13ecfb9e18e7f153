"""The Background Task Scheduler (PACER document, section IV-D), with the project's account of work.

In print background work may be put off without end. The account: what full speed would have done,
times a floor, less what was done, is owed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DONE_S = 0.02


class BackgroundAccount:
    """Work in core-seconds at the highest frequency."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.aim = (settings["background_floor"] + 1.0) / 2.0
        self.clear()

    def clear(self) -> None:
        self.owed_core_s = 0.0
        self.due_rate = 0.0
        self.backlog_core_s = 0.0
        self.draining = False
        self.known = False

    def account(self, seen: Mapping[str, float] | None, at_full_speed: bool, dt_s: float) -> None:
        """owed += aim x (work of full speed) - (work done)."""
        if seen is None or not all(0.0 <= value < math.inf for value in seen.values()):
            self.clear()
            return
        self.known = True
        full_speed = seen["done_core_s"] if at_full_speed else seen["offered_core_s"]
        self.owed_core_s += self.aim * full_speed - seen["done_core_s"]
        if dt_s > 0.0:
            self.due_rate = seen["offered_core_s"] / dt_s
        self.backlog_core_s = seen["backlog_core_s"]

    def pace(self) -> float:
        """While stable: aim + owed / (due rate x horizon), within its limits."""
        if not self.settings["adapt_background"] or self.due_rate <= 0.0:
            return 1.0
        pace = float(self.settings["background_pace"])
        if self.settings["background_floor"] > 0.0:
            horizon_core_s = self.due_rate * self.settings["background_horizon"]
            pace = self.aim + self.owed_core_s / horizon_core_s
        least, most = self.settings["background_pace"], self.settings["background_pace_max"]
        return float(min(max(pace, least), most))

    def pace_while_idle(self) -> float:
        """While idle: as fast as it goes until all is done, then nothing until a batch is due.

        Work that nobody tells of goes on.
        """
        if not self.settings["adapt_background"]:
            return 1.0
        backlog_s = self.backlog_core_s / self.due_rate if self.due_rate > 0.0 else 0.0
        least_s = DONE_S if self.draining else self.settings["idle_batch"]
        self.draining = backlog_s > least_s or (not self.draining and backlog_s == least_s)
        if self.draining:
            return float(self.settings["idle_pace"])
        return 0.0 if self.known else 1.0
