"""What a server's knobs permit, read from its description."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wattio import _core

GroupSetting = tuple[int, float]
"""Cores, and frequency in hertz."""


@dataclass(frozen=True)
class GroupLimits:
    cores_min: int
    cores_max: int
    frequency_min: float
    frequency_max: float
    frequency_steps: Sequence[float]
    idle_cores_sleep: bool

    def full(self) -> GroupSetting:
        return (self.cores_max, self.frequency_max)

    def nearest(self, cores: float, frequency: float) -> GroupSetting:
        """The nearest permitted setting that is no slower, where there is one."""
        within = min(max(frequency, self.frequency_min), self.frequency_max)
        for step in self.frequency_steps:
            if step >= within * (1.0 - 1e-9):
                within = step
                break
        return (int(min(max(cores, self.cores_min), self.cores_max)), within)


def limits_of(server: str) -> list[GroupLimits]:
    """The limits of each core group; `server` is TOML text."""
    described: dict[str, Any] = json.loads(_core.check_server(server))
    cores = described["cores"]
    return [
        GroupLimits(
            cores_min=group["cores_min"],
            cores_max=group["cores"],
            frequency_min=_core.parse_quantity(str(cores["frequency_min"]), "frequency"),
            frequency_max=_core.parse_quantity(str(cores["frequency_max"]), "frequency"),
            frequency_steps=[
                _core.parse_quantity(str(step), "frequency") for step in cores["frequency_steps"]
            ],
            idle_cores_sleep=cores["idle"] == "c-states",
        )
        for group in described["group"]
    ]
