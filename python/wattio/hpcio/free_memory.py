"""How much memory this process may still take: what the host has, and what control groups allow.

A process under a limit of its group is killed at the limit, whatever the host has. Pages of files
count as used there, and are given up before that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class _Version:
    """Where one version of control groups has its files, and their names."""

    mount: str
    limit: str
    used: str
    prefix: str
    """Of the lines in `memory.stat` that count what is in the groups below, too."""


_FIRST = _Version(
    "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
)
_SECOND = _Version("sys/fs/cgroup", "memory.max", "memory.current", "")
_GIVEN_UP = ("active_file", "inactive_file", "slab_reclaimable")


def available_bytes(root: Path = Path("/")) -> int | None:
    """Memory that can be had without swapping or being killed; None if nothing tells."""
    return min([*_of_host(root), *_of_groups(root)], default=None)


def _of_host(root: Path) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc" / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _of_groups(root: Path) -> Iterator[int]:
    """What this process's groups, and those above them, leave."""
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc" / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _upwards(root, path, _SECOND)
            elif "memory" in controllers.split(","):
                yield from _upwards(root, path, _FIRST)


def _upwards(root: Path, path: str, version: _Version) -> Iterator[int]:
    """In a container the path may be that of the host: what is not here is passed over."""
    parts = [] if ".." in path else path.strip("/").split("/")
    for count in range(len(parts), -1, -1):
        group = root.joinpath(version.mount, *parts[:count])
        # A group without a limit has a word there, or no file at all.
        with contextlib.suppress(OSError, ValueError):
            limit = int((group / version.limit).read_text())
            used = int((group / version.used).read_text())
            lines = (group / "memory.stat").read_text().splitlines()
            counts = {name: int(value) for name, value in (line.split() for line in lines)}
            given_up = sum(counts.get(version.prefix + name, 0) for name in _GIVEN_UP)
            yield max(0, limit - used + given_up)
