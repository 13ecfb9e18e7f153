"""A made-up `wattiod`: its journal, seeded, for tests of what is derived from it."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

START_UTC_NS = 1_800_000_000_000_000_000
START_MONOTONIC_NS = 5_000_000_000
GROUPS = ({"name": "reactors", "cores": "0-7", "cores_min": 2}, {"name": "aux", "cores": "8,10-12"})
EDGES_US = (250.0, 500.0, 1000.0, 2000.0, 4000.0)

CONFIG = """\
name = "store1"

[policy]
name = "pacer"
settings = { plf = 0.2 }

[latency]
source = "diskstats" # <b>the first</b>
"""


def machine(mode: str = "observe") -> dict[str, Any]:
    """What `machine.json` holds."""
    return {
        "kind": "governor",
        "mode": mode,
        "program": "wattiod",
        "version": "0.1.0",
        "name": "store1",
        "policy": "pacer",
        "groups": list(GROUPS),
        "kernel": "Linux 6.1",
        "processor": "Test CPU",
        "hostname": "host1",
        "boot_id": "0d9a",
        "config_file": "/etc/wattio/wattiod.toml",
        "started_utc": "2027-01-15T08:00:00+00:00",
        "started_utc_ns": START_UTC_NS,
        "started_monotonic_ns": START_MONOTONIC_NS,
    }


def windows(count: int, mode: str = "observe", seed: int = 1) -> list[dict[str, Any]]:
    """Windows of half a second: full speed at first, then saving, idle now and then."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        level = 0.5 + 0.4 * math.sin(2 * math.pi * number / max(count, 1))
        idle = number % 97 > 90
        saving = number >= 20 and not idle
        state = "idle" if idle else "stable" if saving else "unstable"
        requests = 0 if idle else round(2000 * level)
        measured_us = 300 * (1 + 0.1 * draw.random()) if requests else None
        slower = 1 + (0.25 * draw.random() if saving else 0)
        seen_us = measured_us and measured_us * slower
        cores = [2 + round(6 * level), 4] if saving else [8, 4]
        watts = 40 + 8 * cores[0]
        end_ns = (number + 1) * 500_000_000
        found.append(
            {
                "utc_ns": START_UTC_NS + end_ns,
                "monotonic_ns": START_MONOTONIC_NS + end_ns,
                "dt_s": 0.5,
                "requests": requests,
                "latency_us_mean": measured_us if mode == "observe" else seen_us,
                "latency_us_p99": measured_us and 4 * measured_us,
                "histogram": histogram(requests, draw) if requests else None,
                "latency_us_seen": seen_us,
                "baseline_us": 315.0 if number >= 10 else None,
                "bound_us": 378.0 if number >= 10 else None,
                "state": state,
                "reason": "room below the bound" if saving else "learns the baseline",
                "forced": "no latency to go by" if number < 2 else None,
                "cores": cores,
                "frequency_hz": [3e9 - 1e8 * round(10 * (1 - level) * saving), None],
                "utilisation_clients": [level * 0.6, 0.1],
                "utilisation_background": [0.05, 0.0],
                "background_pace": 1.0,
                "power_w_measured": None if mode == "observe" else watts + 3 * draw.random(),
                "power_w_estimated": watts if number >= 20 else None,
                "power_w_full_speed_estimated": 104.0 if number >= 20 else None,
            }
        )
    return found


def histogram(requests: int, draw: random.Random) -> list[list[float | int | None]]:
    """Most requests in the lower buckets, a few above all edges."""
    left = requests
    found: list[list[float | int | None]] = []
    for edge in EDGES_US:
        part = round(left * draw.uniform(0.4, 0.8))
        found.append([edge, part])
        left -= part
    return [*found, [None, left]]


def summary(count: int, bounded: tuple[int, int] = (0, 0), mode: str = "observe") -> dict[str, Any]:
    """The daemon's status after `count` windows; `bounded` are violations and bounded windows."""
    shadow = {
        "fitted": True,
        "why": None,
        "error_median": 0.04,
        "error_p90": 0.11,
        "windows_fitted": 360,
        "windows_kept_out": 120,
    }
    return {
        "version": "0.1.0",
        "mode": mode,
        "latency": {"source": "diskstats sda", "tolerance": 0.2},
        "power": {
            "meter": None,
            "model": "assumed (not measured on this host)",
            "estimated_span_s": 10.0,
        },
        "shadow": shadow if mode == "observe" else None,
        "counts": {"windows": count, "violations": bounded[0], "windows_bounded": bounded[1]},
    }


def bounded(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Windows above the bound, and windows that count, one by one: a slow second derivation."""
    broken = counted = 0
    for before, row in pairwise(rows):
        if before["state"] == "stable" and row["requests"] and row["bound_us"] is not None:
            counted += 1
            broken += row["latency_us_seen"] > row["bound_us"]
    return broken, counted


EVENTS = [
    {"utc_ns": START_UTC_NS, "severity": "info", "message": "observing"},
    {"utc_ns": START_UTC_NS + 10**9, "severity": "warning", "message": "<i>sda</i> is slow"},
]


def write(
    path: Path,
    rows: list[dict[str, Any]],
    mode: str = "observe",
    status: dict[str, Any] | None = None,
    events: list[dict[str, Any]] | None = None,
) -> Path:
    """A folder as a daemon leaves it that was stopped."""
    (path / "raw").mkdir(parents=True)
    (path / "study.toml").write_text(CONFIG)
    (path / "machine.json").write_text(json.dumps(machine(mode)))
    lines(path / "raw" / "windows.jsonl", rows)
    lines(path / "raw" / "events.jsonl", EVENTS if events is None else events)
    if status is None:
        status = summary(len(rows), bounded(rows), mode)
    (path / "raw" / "summary.json").write_text(json.dumps(status))
    return path


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """One JSON object for each line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
