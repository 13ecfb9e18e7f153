"""The Background Task Scheduler (PACER document, section IV-D), with the project's account of work.

In print background work may be put off without end. The account: what full speed would have done,
times a floor, less what was done, is owed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
        self.due_rates: list[float] = []
        self.backlog_core_s = 0.0
        self.draining = False

    @property
    def due_rate(self) -> float:
        return sum(self.due_rates)

    def account(self, seen: Sequence[Mapping[str, Any]], at_full_speed: bool, dt_s: float) -> None:
        """owed += aim x (work of full speed) - (work done), all classes together."""
        amounts = ("done_core_s", "due_core_s", "backlog_core_s")
        if not seen or not all(0.0 <= work[name] < math.inf for work in seen for name in amounts):
            self.clear()
            return
        done, due, backlog = (sum(work[name] for work in seen) for name in amounts)
        self.owed_core_s += self.aim * (done if at_full_speed else due) - done
        self.due_rates = [work["due_core_s"] / dt_s for work in seen] if dt_s > 0.0 else []
        self.backlog_core_s = backlog

    def budgets(self) -> list[float]:
        """While stable: aim + owed / (due rate x horizon), within its limits, of each class."""
        if not self.settings["adapt_background"] or self.due_rate <= 0.0:
            return []
        pace = float(self.settings["background_pace"])
        if self.settings["background_floor"] > 0.0:
            horizon_core_s = self.due_rate * self.settings["background_horizon"]
            pace = self.aim + self.owed_core_s / horizon_core_s
        least, most = self.settings["background_pace"], self.settings["background_pace_max"]
        return self.at_pace(float(min(max(pace, least), most)))

    def at_pace(self, pace: float) -> list[float]:
        return [rate * pace for rate in self.due_rates]

    def budgets_while_idle(self) -> list[float]:
        """While idle: as fast as it goes until all is done, then nothing until a batch is due.

        Work that nobody tells of goes on.
        """
        if not self.settings["adapt_background"]:
            return []
        backlog_s = self.backlog_core_s / self.due_rate if self.due_rate > 0.0 else 0.0
        least_s = DONE_S if self.draining else self.settings["idle_batch"]
        self.draining = backlog_s > least_s or (not self.draining and backlog_s == least_s)
        return self.at_pace(float(self.settings["idle_pace"]) if self.draining else 0.0)
