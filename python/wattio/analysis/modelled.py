"""Energy by a power model that is linear in what cores did, with the range of its coefficients.

    E = rest T + core N + core_frequency N_phi + busy B + busy_frequency B_phi + io K

with T the seconds, N core-seconds on, B core-seconds awake (N_phi and B_phi each scaled by
frequency), K thousands of requests: the model of `crates/plant/src/power_model.rs` times time.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wattio.analysis.cores import Spent

HALF_TO_DOUBLE = (0.5, 2.0)
"""The range of a coefficient that says none of its own: our assumption, for numbers that nobody has
measured and that are there for orders of magnitude. Each may be off by itself, so that the ratio of
any two, such as of a core in work to the idle machine, spans a factor of 16."""

COEFFICIENTS = ("rest", "core", "core_frequency", "busy", "busy_frequency", "io")


BY = "estimated_by"
"""Metric that tells models, and machines that they are used on, apart: a checksum."""

LOW, HIGH = "estimated_energy_j_low.", "estimated_energy_j_high."
"""Metrics of the ends of each part of an estimated energy, the coefficient's name behind."""

MEASURED = "estimated_energy_j_measured"
"""Metric of what of a sum that holds an estimate was measured."""


class Range(NamedTuple):
    """A value with the least and the most that it may be."""

    low: float
    value: float
    high: float


@dataclass(frozen=True)
class Coefficients:
    """The coefficients of a power model in watts (`io`: for a thousand requests per second).

    `host` is the machine that it is used on; the same coefficients on another one are wrong by
    other amounts. `guessed` names those whose range is no interval of a fit.
    """

    host: str
    frequency_max_hz: float
    watts: Mapping[str, Range]
    guessed: tuple[str, ...] = ()

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any], host: str) -> Coefficients:
        """From a power model's facts, as `_core.PowerModel` tells them."""
        watts, guessed = {}, []
        for name in COEFFICIENTS:
            value, interval = float(facts[name]["watts"]), facts[name].get("interval_w")
            if interval is None:
                guessed += [name] if value else []
                interval = [share * value for share in HALF_TO_DOUBLE]
            watts[name] = Range(float(interval[0]), value, float(interval[1]))
        return cls(host, float(facts["frequency_max_hz"]), watts, tuple(guessed))

    def as_plain(self) -> dict[str, Any]:
        """As plain data, to be kept with a meter's facts."""
        return {
            "host": self.host,
            "frequency_max_hz": self.frequency_max_hz,
            "watts": {name: list(value) for name, value in self.watts.items()},
            "guessed": list(self.guessed),
        }

    @classmethod
    def of_plain(cls, content: Mapping[str, Any]) -> Coefficients:
        """What `as_plain` made. Raises ValueError, KeyError, TypeError for what is not that."""
        watts = {str(name): Range(*map(float, it)) for name, it in content["watts"].items()}
        guessed = tuple(map(str, content["guessed"]))
        return cls(str(content["host"]), float(content["frequency_max_hz"]), watts, guessed)

    def parts_j(self, spent: Spent) -> dict[str, Range]:
        """Joules by coefficient, of those that are not zero whatever they may be."""
        scale = spent.full_hz / self.frequency_max_hz if spent.full_hz else 1.0
        amounts = {
            "rest": spent.seconds,
            "core": spent.on_s,
            "core_frequency": min(scale * spent.on_scaled_s, spent.on_s),
            "busy": spent.awake_s,
            "busy_frequency": min(scale * spent.awake_scaled_s, spent.awake_s),
            "io": spent.requests / 1e3,
        }
        return {
            name: Range(*(amounts[name] * end for end in watts))
            for name, watts in self.watts.items()
            if watts.high > 0
        }

    def energy_j(self, spent: Spent) -> Range:
        """All of it; each coefficient may be at its own end."""
        parts = self.parts_j(spent).values()
        return Range(*(sum(part[at] for part in parts) for at in range(3)))

    @property
    def origin(self) -> str:
        """Where the ranges come from, in words."""
        if not self.guessed:
            return "95 % intervals of the fit"
        fitted = len(self.guessed) < sum(value.high > 0 for value in self.watts.values())
        text = "half to double, assumed"
        return (
            f"95 % intervals of the fit, and {text} of {', '.join(self.guessed)}"
            if fitted
            else (text)
        )


def mark_of(plain: Mapping[str, Any]) -> float:
    """A checksum of coefficients as plain data, with the machine that they are used on."""
    return float(zlib.crc32(json.dumps(plain, sort_keys=True).encode()))
