"""Which adaptor goes first: the one that saves more watts for the latency that it costs.

Both are estimated for one small step down of each group, with a queue M/M/n by Sakasegawa's
approximation. Only the order of the two is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reference.ieee import over
from reference.limits import GroupLimits

LOAD_MAX = 0.98
BACKGROUND_TASK = 4.0

Step = tuple[float, float]
"""Watts saved, and latency added in core-seconds of clients' work a second."""


@dataclass(frozen=True)
class Load:
    """A group's work in cores' worth."""

    clients: float
    background: float

    def wait(self, cores: float) -> float:
        """`b rho^(sqrt(2 (n + 1)) - 1) / (n (1 - rho_c))` service times of a client's task.

        rho is the share of cores with any task, rho_c that with one of clients, who go before
        background tasks; b the length of the task that runs, background's being 4 times as long.
        """
        both = self.clients + self.background
        if both <= 0.0:
            return 0.0
        rho = min(over(both, cores), LOAD_MAX)
        rho_clients = min(over(self.clients, cores), LOAD_MAX)
        length = (self.clients + self.background * BACKGROUND_TASK) / both
        exponent = math.sqrt(2.0 * (cores + 1.0)) - 1.0
        return over(length * math.pow(rho, exponent), cores * (1.0 - rho_clients))


def load_of(group: Mapping[str, Any]) -> Load:
    cores = float(group["cores"])
    clients, background = group["utilisation_clients"], group["utilisation_background"]
    return Load(max(clients, 0.0) * cores, max(background, 0.0) * cores)


def core_less(group: Mapping[str, Any], limits: GroupLimits, settings: Mapping[str, Any]) -> Step:
    """A core less no longer idles, and tasks wait longer: `W_c (wait(n - 1) - wait(n))`."""
    n = group["cores"]
    if not settings["adapt_cores"] or n <= limits.cores_min or n < 2:
        return (0.0, 0.0)
    load = load_of(group)
    _, idle_w = limits.draws(group["frequency_hz"])
    return (idle_w, load.clients * (load.wait(n - 1.0) - load.wait(n)))


def next_frequency(limits: GroupLimits, f_share: float, gamma: float) -> tuple[float, float]:
    """Now, and one step lower or as much lower as a whole loss distance, whichever is farther."""
    now = limits.frequency_max * f_share
    lower = limits.frequency_max * max(f_share - gamma, 0.0)
    below = [step for step in limits.frequency_steps if step < now * (1.0 - 1e-9)]
    return (now, max(min([lower, *below[-1:]]), limits.frequency_min))


def slower(
    group: Mapping[str, Any], limits: GroupLimits, f_share: float, settings: Mapping[str, Any]
) -> Step:
    """At f' < f every task takes `s = 1 - c + c f / f'` times as long; it waits for longer, too."""
    now, lower = next_frequency(limits, f_share, settings["gamma"])
    if not settings["adapt_frequency"] or lower >= now * (1.0 - 1e-9):
        return (0.0, 0.0)
    c = limits.frequency_bound_share
    stretch = 1.0 - c + c * (now / lower)
    n = float(group["cores"])
    load = load_of(group)
    slow = Load(load.clients * stretch, load.background * stretch)

    def power_w(frequency: float, at: float) -> float:
        running_w, idle_w = limits.draws(frequency)
        busy = min((load.clients + load.background) * at, n)
        return busy * running_w + (n - busy) * idle_w

    costs = slow.clients * (1.0 + slow.wait(n)) - load.clients * (1.0 + load.wait(n))
    return (power_w(now, 1.0) - power_w(lower, stretch), costs)


def cores_go_first(
    f_share: float,
    groups: Sequence[Mapping[str, Any]],
    limits: Sequence[GroupLimits],
    settings: Mapping[str, Any],
) -> bool:
    """`saved / cost` of all groups' cores is above that of all groups' frequency.

    Where that cannot be told: the cores go first where idle ones poll.
    """
    pairs = list(zip(groups, limits, strict=False))
    cores = [core_less(group, limit, settings) for group, limit in pairs]
    frequency = [slower(group, limit, f_share, settings) for group, limit in pairs]
    by_cores = sum(w for w, _ in cores) * sum(cost for _, cost in frequency)
    by_frequency = sum(w for w, _ in frequency) * sum(cost for _, cost in cores)
    if math.isfinite(by_cores) and math.isfinite(by_frequency) and by_cores != by_frequency:
        return by_cores > by_frequency
    return not all(limit.idle_cores_sleep for limit in limits)
