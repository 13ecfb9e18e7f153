"""The rate at which a server saturates under a pattern: what pressure is a share of.

Measured in the simulator once for each server, pattern and number of clients, then remembered: in
this process, and in the user's cache folder. The measurement has a fixed seed, so that remembering
changes no result.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path

from wattio import _core
from wattio.errors import Cancelled
from wattio.files.small import cache_folder
from wattio.simulator.profile import Pattern

_SEED = 1

_STEP_S = 0.05
"""Simulated at a time: a prompt Ctrl-C, whatever the number of clients."""

_known: dict[str, float] = {}
_lock = threading.Lock()


def saturated_iops(
    server: str, pattern: Pattern, clients: int, cancelled: threading.Event | None = None
) -> float:
    """I/Os per second of `clients` closed-loop clients at full speed; `server` is TOML text.

    Raises Cancelled when `cancelled` is set: with many clients it takes a while.
    """
    asked = {
        "read_fraction": pattern.read_fraction,
        "random_fraction": pattern.random_fraction,
        "io_bytes": pattern.io_bytes,
    }
    described = json.dumps(asked)
    # Another build of the simulator may give another rate.
    stamp = Path(_core.__file__ or __file__).stat().st_mtime_ns
    text = f"{stamp}\n{clients}\n{described}\n{server}"
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    with _lock:
        if key not in _known:
            _known[key] = _remembered(key) or _measure(key, server, asked, clients, cancelled)
        return _known[key]


def _remembered(key: str) -> float | None:
    try:
        value = float((cache_folder() / key).read_text(encoding="ascii"))
    except (OSError, ValueError, RuntimeError):
        return None
    return value if value > 0 else None


def _measure(
    key: str,
    server: str,
    pattern: dict[str, float],
    clients: int,
    cancelled: threading.Event | None,
) -> float:
    value = _simulate(server, pattern, clients, cancelled)
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        part = cache_folder() / f"{key}.{os.getpid()}.part"
        part.write_text(repr(value), encoding="ascii")
        part.replace(cache_folder() / key)
    except (OSError, RuntimeError):
        pass  # a cache that cannot be written costs a second the next time
    return value


def _simulate(
    server: str, pattern: dict[str, float], clients: int, cancelled: threading.Event | None
) -> float:
    """What `wattio._core.saturated_iops` gives, in steps between which it can be stopped."""
    phase = {"span_s": 1.0, "iops": None, "pattern": pattern}
    run = _core.Simulation(
        json.dumps(
            {
                "server": server,
                "policy": {"name": "native"},
                "bounds": [],
                "load": {
                    "kind": "phases",
                    "mode": "clients",
                    "clients": clients,
                    "phases": [phase],
                },
                "warmup_s": 0.5,
                "duration_s": None,
                "window_s": 0.5,
                "seed": _SEED,
            }
        )
    )
    done = 0.0
    while done < 1.0:
        if cancelled is not None and cancelled.is_set():
            raise Cancelled("stopped")
        done = run.advance(_STEP_S)
    return float(json.loads(run.summary())["iops_mean"])
