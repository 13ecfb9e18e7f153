"""Outputs of fio, made up: as small as can be, in the layout of fio 3."""

from __future__ import annotations

import json
from typing import Any

END_MS = 1_800_000_060_000


def direction(
    operations: int = 1000,
    bytes_each: int = 4096,
    runtime_ms: int = 60_000,
    bins: dict[int, int] | None = None,
    kind: str = "lat_ns",
) -> dict[str, Any]:
    latency: dict[str, Any] = {"min": 1000, "max": 9000, "mean": 2000.0, "N": operations}
    whole = {
        "io_bytes": operations * bytes_each,
        "runtime": runtime_ms,
        "total_ios": operations,
        "slat_ns": {"min": 10, "max": 90, "mean": 100.0, "N": operations},
        "clat_ns": dict(latency),
        "lat_ns": dict(latency),
    }
    if bins is not None:
        whole[kind] = latency | {"bins": {str(key): value for key, value in bins.items()}}
    return whole


def job(
    name: str = "a", group: int = 0, start_ms: int | None = None, error: int = 0, **parts: object
) -> dict[str, Any]:
    found: dict[str, Any] = {"jobname": name, "groupid": group, "error": error, **parts}
    return found if start_ms is None else found | {"job_start": start_ms}


def output(*jobs: dict[str, Any], key: str = "jobs", end_ms: int = END_MS) -> str:
    told = {"fio version": "fio-3.99", "timestamp_ms": end_ms, key: list(jobs)}
    return json.dumps(told, indent=2)
