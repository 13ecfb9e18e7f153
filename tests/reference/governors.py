"""Linux's governors, one equation each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reference.limits import GroupLimits, GroupSetting


def load_of(group: Mapping[str, Any]) -> float:
    """Share of time in tasks; a core that polls is not in one."""
    return float(group["utilisation_clients"] + group["utilisation_background"])


def ondemand(limits: GroupLimits, group: Mapping[str, Any], up_threshold: float) -> GroupSetting:
    """The kernel's: f_max above `up_threshold`, else f_min + load (f_max - f_min)."""
    load = min(max(load_of(group), 0.0), 1.0)
    if load > up_threshold:
        return limits.full()
    wanted = limits.frequency_min + load * (limits.frequency_max - limits.frequency_min)
    return limits.nearest(limits.cores_max, wanted)


def ondemand_document(limits: GroupLimits, group: Mapping[str, Any]) -> GroupSetting:
    """The PACER document, section III-C: f_target = f_max T / T_total, with T the busy time."""
    load = min(max(load_of(group), 0.0), 1.0)
    return limits.nearest(limits.cores_max, limits.frequency_max * load)


class Schedutil:
    """f = 1.25 u f_max, with u as it would be at the highest frequency; boosted by I/O wait."""

    def __init__(self, limits: Sequence[GroupLimits], headroom: float, io_wait_boost: bool) -> None:
        self.limits = limits
        self.headroom = headroom
        self.io_wait_boost = io_wait_boost
        self.boosts = [0.0] * len(limits)

    def step(self, groups: Sequence[Mapping[str, Any]]) -> list[GroupSetting]:
        settings = []
        for at, (limits, group) in enumerate(zip(self.limits, groups, strict=True)):
            if not self.io_wait_boost:
                boost = 0.0
            elif group["waited_for_drives"]:
                boost = min(max(2.0 * self.boosts[at], 0.125), 1.0)
            else:
                boost = self.boosts[at] / 2.0 if self.boosts[at] > 0.125 else 0.0
            self.boosts[at] = boost
            invariant = load_of(group) * group["frequency_hz"] / limits.frequency_max
            wanted = min(max(self.headroom * invariant, boost), 1.0)
            settings.append(limits.nearest(limits.cores_max, limits.frequency_max * wanted))
        return settings
