"""A file that is written before anything is measured, and comes back the same after each step.

The first client writes it and the last one reads it. A file system that answers fast and returns
something else, or that has lost a server's part, is not measured without notice.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

from wattio.errors import SystemFailed
from wattio.hosts.hosts import Hosts
from wattio.workloads.workload import LOCAL, Place

NAME = ".wattio-content"

_BYTES = 1 << 20
_SEED = 14


def write(places: Sequence[Place], hosts: Hosts | None = None) -> None:
    """Write the file, and wait until it is there for others. Raises SystemFailed."""
    path = places[0].folder / NAME
    if hosts is not None and places[0].host != LOCAL:
        return hosts[places[0].host].write(path, _content(), mode=None)
    try:
        with path.open("wb") as file:
            file.write(_content())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise SystemFailed(f"client 1: {path}: cannot be written: {error.strerror}") from error


def check(places: Sequence[Place], hosts: Hosts | None = None) -> None:
    """Read it at the last client. Raises SystemFailed where it is not what was written."""
    path, who = places[-1].folder / NAME, f"client {len(places)}"
    if hosts is not None and places[-1].host != LOCAL:
        found = hosts[places[-1].host].read(path)
    else:
        found = _read(path, who)
    if found != _content():
        raise SystemFailed(f"{who}: {path}: differs from what was written before the measurement")


def _read(path: Path, who: str) -> bytes:
    try:
        with path.open("rb") as file:
            # What the kernel still has of it proves nothing.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return file.read()
    except OSError as error:
        raise SystemFailed(f"{who}: {path}: cannot be read: {error.strerror}") from error


def _content() -> bytes:
    return random.Random(_SEED).randbytes(_BYTES)  # noqa: S311 (the same each time)
