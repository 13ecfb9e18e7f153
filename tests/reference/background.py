"""The Background Task Scheduler (PACER document, section IV-D), with an account of its work.

In print background work may be put off without end. Here every class has an account of what full
speed would have done by now and is not done, and what is owed is worked off within a horizon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reference.ieee import over

RATE_MEMORY_S = 10.0
DONE_S = 0.02
DONE_CORE_S = 0.01
COLLECTED_PART = 0.5

Budgets = list[float | None]
"""Core-seconds at the highest frequency a second for each class; None: as it becomes due."""


class Account:
    """One class, in core-seconds at the highest frequency."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dues: list[tuple[float, float]] = []
        self.owed_core_s = 0.0
        self.backlog_core_s = 0.0
        self.urgency = 0.0

    def account(self, seen: Mapping[str, Any], at_full_speed: bool, dt_s: float) -> None:
        """`owed = owed + due - done`, not below 0 and not above what is there to do.

        What full speed does is what it would have done: only a debt that it pays counts there.
        """
        if dt_s > 0.0:
            self.dues.append((seen["due_core_s"] / dt_s, dt_s))
        late = seen["due_core_s"] - seen["done_core_s"]
        self.owed_core_s += min(late, 0.0) if at_full_speed else late
        self.owed_core_s = min(max(self.owed_core_s, 0.0), seen["backlog_core_s"])
        self.backlog_core_s = seen["backlog_core_s"]
        self.urgency = min(max(seen.get("urgency") or 0.0, 0.0), 1.0)

    def rate(self) -> float:
        """Mean rate at which work becomes due, late windows weighing more.

        `sum_i r_i integral over window i of exp(-t / T) dt / T`, with t the time that passed since
        and the first rate taken for that of all time before. A rate that is no number ends the
        memory; 0 before anything is known.
        """
        rates = [rate for rate, _ in self.dues]
        bad = [at for at, rate in enumerate(rates) if not math.isfinite(rate)]
        known = self.dues[bad[-1] + 1 :] if bad else self.dues
        total, passed_s = 0.0, 0.0
        for at, (rate, dt_s) in reversed(list(enumerate(known))):
            share = 1.0 if at == 0 else -math.expm1(-dt_s / RATE_MEMORY_S)
            total += rate * share * math.exp(-passed_s / RATE_MEMORY_S)
            passed_s += dt_s
        return total

    def debt_rate(self, horizon_s: float) -> float:
        """`owed / (horizon (1 - urgency))`."""
        if self.owed_core_s <= 0.0:
            return 0.0
        return over(self.owed_core_s, horizon_s * (1.0 - self.urgency))

    def is_done(self) -> bool:
        return self.backlog_core_s <= max(DONE_S * self.rate(), DONE_CORE_S)


class BackgroundAccount:
    """The accounts of all classes."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.classes: list[Account] = []
        self.elapsed_s = 0.0
        self.draining = False

    def account(self, seen: Sequence[Mapping[str, Any]], at_full_speed: bool, dt_s: float) -> None:
        """Takes a window in; other classes than before, or amounts that cannot be, begin anew."""
        self.elapsed_s += dt_s
        amounts = ("done_core_s", "due_core_s", "backlog_core_s")
        if not seen or not all(0.0 <= work[name] < math.inf for work in seen for name in amounts):
            self.classes, self.draining = [], False
            return
        names = [work["class"] for work in seen]
        if names != [account.name for account in self.classes]:
            self.classes = [Account(name) for name in names]
        for account, work in zip(self.classes, seen, strict=True):
            account.account(work, at_full_speed, dt_s)

    def budgets(self) -> Budgets:
        """While stable: `due rate + owed / horizon`; without a floor the printed constant pace."""
        idle = all(account.rate() + account.owed_core_s <= 0.0 for account in self.classes)
        if not self.settings["adapt_background"] or idle:
            return []
        if self.settings["background_floor"] > 0.0:
            horizon_s = self.settings["background_horizon"]
            rates = [account.rate() + account.debt_rate(horizon_s) for account in self.classes]
        else:
            rates = [account.rate() * self.settings["background_pace"] for account in self.classes]
        return [rate if math.isfinite(rate) else None for rate in rates]

    def debts(self) -> Budgets:
        """At full speed for long: as it becomes due, and what is owed beside it."""
        owes = any(account.owed_core_s > DONE_CORE_S for account in self.classes)
        return self.budgets() if owes and self.settings["background_floor"] > 0.0 else []

    def batch_s(self) -> float:
        """Seconds' worth that an idle server may collect: a part of what the floor leaves."""
        most = float(self.settings["idle_batch"])
        if self.settings["background_floor"] <= 0.0:
            return most
        left_s = (1.0 - self.settings["background_floor"]) * self.elapsed_s * COLLECTED_PART
        return float(min(most, max(left_s - self.settings["window"], 0.0)))

    def drains_while_idle(self) -> bool:
        """Whether an idle server works: once a batch is due or pressing, until all is done."""
        batch_s = 0.0 if self.draining else self.batch_s()
        self.draining = any(
            not account.is_done()
            and (account.backlog_core_s >= account.rate() * batch_s or account.urgency >= 1.0)
            for account in self.classes
        )
        return self.draining
