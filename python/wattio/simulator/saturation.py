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
from wattio.files.small import cache_folder
from wattio.simulator.profile import Pattern

_SEED = 1
_known: dict[str, float] = {}
_lock = threading.Lock()


def saturated_iops(server: str, pattern: Pattern, clients: int) -> float:
    """I/Os per second of `clients` closed-loop clients at full speed; `server` is TOML text."""
    described = json.dumps(
        {
            "read_fraction": pattern.read_fraction,
            "random_fraction": pattern.random_fraction,
            "io_bytes": pattern.io_bytes,
        }
    )
    # Another build of the simulator may give another rate.
    stamp = Path(_core.__file__ or __file__).stat().st_mtime_ns
    text = f"{stamp}\n{clients}\n{described}\n{server}"
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    with _lock:
        if key not in _known:
            _known[key] = _remembered(key) or _measure(key, server, described, clients)
        return _known[key]


def _remembered(key: str) -> float | None:
    try:
        value = float((cache_folder() / key).read_text(encoding="ascii"))
    except (OSError, ValueError, RuntimeError):
        return None
    return value if value > 0 else None


def _measure(key: str, server: str, pattern: str, clients: int) -> float:
    value = _core.saturated_iops(server, pattern, clients, _SEED)
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        part = cache_folder() / f"{key}.{os.getpid()}.part"
        part.write_text(repr(value), encoding="ascii")
        part.replace(cache_folder() / key)
    except (OSError, RuntimeError):
        pass  # a cache that cannot be written costs a second the next time
    return value
