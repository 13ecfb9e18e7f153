"""What a server's knobs permit, read from its description."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wattio import _core

GroupSetting = tuple[int, float]
"""Cores, and frequency in hertz."""


CorePower = tuple[float, float, float]
"""Frequency in hertz, watts of a core with a task, watts of one that is on and has none."""

POWER_POINTS = 16
"""Frequencies that a server without steps tells the power of."""


@dataclass(frozen=True)
class GroupLimits:
    cores_min: int
    cores_max: int
    frequency_min: float
    frequency_max: float
    frequency_steps: Sequence[float]
    idle_cores_sleep: bool
    power: Sequence[CorePower]
    frequency_bound_share: float

    def draws(self, frequency: float) -> tuple[float, float]:
        """Watts of a core with and without a task, linear between the table's frequencies."""
        table = self.power
        return (
            interpolate([(hertz, running) for hertz, running, _ in table], frequency),
            interpolate([(hertz, idle) for hertz, _, idle in table], frequency),
        )

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


@dataclass(frozen=True)
class DriveSleep:
    """The deepest state of sleep of all drives together."""

    count: int
    saves_w: float
    wake_s: float


@dataclass(frozen=True)
class Limits:
    groups: Sequence[GroupLimits]
    drives: DriveSleep | None
    gate_on_s: float


def interpolate(points: Sequence[tuple[float, float]], x: float) -> float:
    """Linear between points that ascend, constant beyond them."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 < x <= x1:
            return y0 + (y1 - y0) * ((x - x0) / (x1 - x0))
    return points[0][1] if x <= points[0][0] else points[-1][1]


def quantity(value: object, kind: str) -> float:
    return float(_core.parse_quantity(str(value), kind))


def power_of(cores: dict[str, Any], frequency: float) -> CorePower:
    """`P = C f V^2 + P_static` of a running core (PACER document, section V), and of an idle one.

    `C f_max V_max^2` is the dynamic power. A core that polls draws as much as one that runs.
    """
    frequency_max = quantity(cores["frequency_max"], "frequency")
    table = [(quantity(hertz, "frequency"), volts) for hertz, volts in cores["voltage"]]
    table = table or [(frequency_max, 1.0)]
    volts = interpolate(table, frequency) / interpolate(table, frequency_max)
    share = frequency / frequency_max
    running = quantity(cores["static_power"], "power")
    running += quantity(cores["dynamic_power"], "power") * (share * volts * volts)
    if cores["idle"] != "c-states":
        return (frequency, running, running)
    rising = cores.get("idle_frequency_power")
    idle = quantity(cores["idle_power"], "power")
    return (frequency, running, idle + (quantity(rising, "power") * share if rising else 0.0))


def limits_of(server: str) -> Limits:
    """The limits of a server; `server` is TOML text."""
    described: dict[str, Any] = json.loads(_core.check_server(server))
    cores = described["cores"]
    low = quantity(cores["frequency_min"], "frequency")
    high = quantity(cores["frequency_max"], "frequency")
    steps = [quantity(step, "frequency") for step in cores["frequency_steps"]]
    evenly = [low + (high - low) * (at / (POWER_POINTS - 1)) for at in range(POWER_POINTS)]
    power = [power_of(cores, hertz) for hertz in steps or evenly]
    groups = [
        GroupLimits(
            cores_min=group["cores_min"],
            cores_max=group["cores"],
            frequency_min=low,
            frequency_max=high,
            frequency_steps=steps,
            idle_cores_sleep=cores["idle"] == "c-states",
            power=power,
            frequency_bound_share=cores["frequency_bound_share"],
        )
        for group in described["group"]
    ]
    gate_on_s = quantity(cores["gate_on"], "time")
    return Limits(groups, drive_sleep_of(described.get("drives")), gate_on_s)


def drive_sleep_of(drives: dict[str, Any] | None) -> DriveSleep | None:
    """What the drives draw less in their deepest sleep than awake and without a request."""
    if not drives or not drives["sleep"]:
        return None
    deepest = drives["sleep"][-1]
    saves_w = quantity(drives["load"][0]["power"], "power") - quantity(deepest["power"], "power")
    count = int(drives["count"])
    return DriveSleep(count, saves_w * count, quantity(deepest["wake"], "time"))
