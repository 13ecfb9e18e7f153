"""The idle check (section IV-B): nothing asked for, none under way, little else for clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reference.limits import GroupLimits, GroupSetting

ROOM = 2.0
"""An idle group is given cores for so many times the clients' work that is seen."""


def clients_cores(group: Mapping[str, Any]) -> float:
    """Clients' work in cores' worth: `n u_clients`."""
    return float(group["utilisation_clients"] * group["cores"])


def is_idle(
    seen: Mapping[str, Any],
    idles: bool,
    limits: Sequence[GroupLimits],
    settings: Mapping[str, Any],
) -> bool:
    """Each group: `n u_clients f / (n_max f_max) <= idle_utilisation_max`, and not overrun."""
    for group, limit in zip(seen["groups"], limits, strict=False):
        scale = (group["frequency_hz"] / limit.frequency_max) / limit.cores_max
        if not clients_cores(group) * scale <= settings["idle_utilisation_max"]:
            return False
        if idles and not group["utilisation_clients"] <= settings["burst_utilisation"]:
            return False
    return True


def at_rest(
    seen: Mapping[str, Any], limits: Sequence[GroupLimits], settings: Mapping[str, Any]
) -> list[GroupSetting]:
    """The fewest cores at the lowest frequency that what clients' tasks are left need."""
    rest = []
    for at, limit in enumerate(limits):
        adapts = settings["adapt_frequency"]
        frequency = limit.frequency_min if adapts else limit.frequency_max
        cores = float(limit.cores_min)
        if not settings["adapt_cores"]:
            cores = limit.cores_max
        elif at < len(seen["groups"]):
            group = seen["groups"][at]
            slower = max(group["frequency_hz"] / frequency, 1.0)
            needed = clients_cores(group) * slower * ROOM / settings["utilisation_clients_max"]
            cores = math.ceil(needed) if math.isfinite(needed) else math.copysign(1e9, needed)
        rest.append((int(min(max(cores, limit.cores_min), limit.cores_max)), frequency))
    return rest
