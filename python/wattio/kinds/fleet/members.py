"""The servers of a fleet: what is drawn for each, and its load as parts of constant rate.

What is drawn depends on the study's seed, the group's name and the server's number in it only, so
that a larger fleet begins with the servers of a smaller one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattio import _core
from wattio.kinds.fleet.schema import DAYS, DayEntry
from wattio.simulator.profile import PATTERNS, Pattern, Profile

Part = tuple[float, float, float, float, float]
"""Seconds, requests a second, share of reads, share of random ones, mean size in bytes."""

HOURS_S = 3600.0
DAY_S = 86400.0

_MEMORY = 0.9
"""How much of its logarithm a wandering rate keeps from step to step."""


@dataclass(frozen=True)
class Member:
    """One server. `source` says what its load is: small, so that batches travel lightly."""

    number: int
    group: str
    server: str
    seed: int
    clients: int | None
    dispersion: float
    source: dict[str, Any]

    def parts(self, span_s: float) -> list[Part]:
        """Its load; repeated where it is shorter than the span. Raises InputError."""
        if self.source["kind"] == "day":
            return _day_parts(self.source, self.seed, span_s)
        if self.source["kind"] == "profile":
            return _rotated([tuple(part) for part in self.source["parts"]], self.source["begin"])
        return _trace_parts(self.source)

    def batch_entry(self, span_s: float) -> dict[str, Any]:
        """The server as `_core.run_fleet` takes it."""
        return {
            "server": self.server,
            "seed": self.seed,
            "clients": self.clients,
            "dispersion": self.dispersion,
            "parts": self.parts(span_s),
            "span_s": span_s,
        }


def seed_of(*words: object) -> int:
    """A seed below 2^63 of anything that can be written down."""
    return int(hashlib.sha256(json.dumps(words).encode()).hexdigest()[:15], 16)


def day_source(
    entry: DayEntry, seed: int, first_day: str, rates: dict[str, float]
) -> tuple[dict[str, Any], float]:
    """What is drawn for a server with a statistical day, and its dispersion.

    `rates` holds the saturated rate of each of the entry's patterns, in I/Os per second.
    """
    draw = np.random.default_rng([seed, 1])
    spread = math.log(entry.pressure_factor)
    pressure = entry.pressure_median * math.exp(spread * float(draw.normal()))
    hour = entry.busiest_hour + entry.busiest_hour_deviation * float(draw.normal())
    name = entry.patterns[int(draw.integers(len(entry.patterns)))]
    dispersion = math.exp(float(draw.random()) * math.log(entry.burstiness_max))
    pattern = pattern_of(entry, name)
    return {
        "kind": "day",
        "pressure": min(pressure, entry.pressure_max),
        "pressure_max": entry.pressure_max,
        "rate": rates[name],
        "hour": hour % 24,
        "swing": entry.swing,
        "weekend": entry.weekend,
        "wander": entry.wander,
        "step_s": entry.step,
        "first_day": DAYS.index(first_day),
        "mix": [pattern.read_fraction, pattern.random_fraction, float(pattern.io_bytes)],
    }, dispersion


def peak_pressure(source: Mapping[str, Any]) -> float:
    """The greatest pressure of a server with a statistical day in a week, but for its wandering."""
    busiest_day = max(1.0, source["weekend"])
    peak = source["pressure"] * (1 + source["swing"]) * busiest_day
    return float(min(source["pressure_max"], peak))


def pattern_of(entry: DayEntry, name: str) -> Pattern:
    """A pattern with the entry's size of an I/O."""
    base = PATTERNS[name]
    size = base.io_bytes if entry.io_bytes is None else round(entry.io_bytes)
    return Pattern(base.read_fraction, base.random_fraction, size)


def profile_source(day: Profile, seed: int, rates: dict[Pattern, float]) -> dict[str, Any]:
    """A profile at its full length; each server begins at another of its segments."""
    parts = []
    for segment in day.segments:
        pattern = segment.pattern
        rate = segment.iops if segment.iops is not None else 0.0
        if segment.pressure is not None:
            rate = segment.pressure * rates[pattern]
        mix = (pattern.read_fraction, pattern.random_fraction, float(pattern.io_bytes))
        parts.append((segment.span_s, rate, *mix))
    begin = int(np.random.default_rng([seed, 2]).integers(len(parts)))
    return {"kind": "profile", "parts": parts, "begin": begin}


def trace_source(
    path: str, digest: str, seed: int, rate_scale: float, segment_s: float
) -> dict[str, Any]:
    """A trace that is repeated; each server begins elsewhere in it."""
    begin = float(np.random.default_rng([seed, 3]).random())
    source = {"kind": "trace", "path": path, "digest": digest, "begin": begin}
    return source | {"rate_scale": rate_scale, "segment_s": segment_s}


def _day_parts(source: dict[str, Any], seed: int, span_s: float) -> list[Part]:
    step_s = source["step_s"]
    at_s = np.arange(math.ceil(span_s / step_s)) * step_s
    hour = (at_s + step_s / 2) % DAY_S / HOURS_S
    course = 1 + source["swing"] * np.cos((hour - source["hour"]) * (math.tau / 24))
    weekday = (source["first_day"] + at_s // DAY_S) % 7
    course *= np.where(weekday >= 5, source["weekend"], 1.0)
    course *= np.exp(_wander(source["wander"], seed, len(at_s)))
    pressure = np.clip(course * source["pressure"], 0.0, source["pressure_max"])
    read, random, size = source["mix"]
    return [(step_s, rate, read, random, size) for rate in (pressure * source["rate"]).tolist()]


def _wander(deviation: float, seed: int, steps: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """An autoregression with this deviation, less half its variance: its exponential has mean 1."""
    pushes = np.random.default_rng([seed, 4]).normal(size=steps)
    pushes[1:] *= math.sqrt(1 - _MEMORY**2)
    level, levels = 0.0, np.empty(steps)
    for at, push in enumerate(pushes.tolist()):
        level = _MEMORY * level + push
        levels[at] = level
    return deviation * levels - deviation**2 / 2


def _trace_parts(source: dict[str, Any]) -> list[Part]:
    segments = json.loads(_core.trace_segments(source["path"], source["segment_s"]))
    parts: list[Part] = []
    mix = (0.7, 1.0, 8192.0)
    for segment in segments:
        if segment["ios"]:
            mix = (
                segment["read_share"],
                segment["random_share"],
                max(float(segment["size_bytes"]["mean"]), 1.0),
            )
        rate = segment["ios"] / segment["span_s"] if segment["span_s"] > 0 else 0.0
        parts.append((max(segment["span_s"], 1e-3), rate * source["rate_scale"], *mix))
    return _rotated(parts, int(source["begin"] * len(parts)))


def _rotated(parts: list[Any], begin: int) -> list[Any]:
    return parts[begin:] + parts[:begin]
