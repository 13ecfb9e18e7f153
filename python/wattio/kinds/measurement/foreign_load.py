"""Processor time that others took of a machine while a step of an iteration ran.

It is what the machine was busy for (/proc/stat) less what is ours: this process and all that it
started (the workload, samplers, holders of knobs), the servers and mounts of the system, and the
kernel's own threads, which mostly work for the workload. Time in interrupts is nobody's. Both sides
are counted in clock ticks, and the kernel may sample them; small differences are noise.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from wattio.clock import Instant, now
from wattio.knobs.texts import Texts

_STAT = "proc/stat"
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of include/linux/sched.h


@dataclass(frozen=True)
class Others:
    """Core-seconds of others within a span of a machine's cores."""

    core_s: float
    cores: int
    seconds: float

    @property
    def share(self) -> float:
        """Of the time of all cores."""
        return self.core_s / (self.cores * self.seconds)


class _Process(NamedTuple):
    """A process, by its number and start; its ticks, and those of children it has waited for."""

    identity: tuple[int, int]
    parent: int
    of_kernel: bool
    own: int
    waited: int


@dataclass(frozen=True)
class Look:
    """All ticks so far: the machine's busy ones, ours, and those of each thread of the kernel."""

    at: Instant
    cores: int
    busy: int
    ours: int
    kernel: Mapping[tuple[int, int], int]


def look(texts: Texts, heads: Collection[int]) -> Look | None:
    """Look at the processes of a machine; None if its kernel does not tell them.

    Those of the numbers `heads` are ours, each with all that it has started.
    """
    there = texts([_STAT, "proc/[0-9]*/stat"])
    at = now()
    try:
        busy, cores = _busy(there[_STAT])
        processes = [_process(path, text) for path, text in there.items() if path != _STAT]
    except (KeyError, IndexError, ValueError):
        return None
    ours = _families(processes, set(heads))
    kernel = {one.identity: one.own for one in processes if one.of_kernel}
    return Look(at, cores, busy, sum(one.own + one.waited for one in ours), kernel)


def between(before: Look | None, after: Look | None) -> Others | None:
    """What others took between two looks; None if one is missing."""
    if before is None or after is None:
        return None
    seconds = (after.at.monotonic_ns - before.at.monotonic_ns) / 1e9
    if seconds <= 0 or after.cores == 0:
        return None
    # A thread that has ended is missing in both: what it still did counts as that of others.
    kernel = sum(ticks - before.kernel.get(it, 0) for it, ticks in after.kernel.items())
    ticks = after.busy - before.busy - (after.ours - before.ours) - kernel
    return Others(max(ticks, 0) / os.sysconf("SC_CLK_TCK"), after.cores, seconds)


def _busy(text: str) -> tuple[int, int]:
    """Busy ticks (user, nice, system) of /proc/stat, and the cores that are on. ValueError."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    (total,) = (words for words in lines if words[0] == "cpu")
    user, nice, system = map(int, total[1:4])
    return user + nice + system, len(lines) - 1


def _process(path: str, text: str) -> _Process:
    """A process from its proc/<number>/stat. Raises ValueError."""
    # The program's name may hold blanks and brackets; the fields of proc(5) from the third on.
    fields = text.rpartition(")")[2].split()
    user, system, of_children, system_of_children = map(int, fields[11:15])
    return _Process(
        identity=(int(path.split("/")[1]), int(fields[19])),
        parent=int(fields[1]),
        of_kernel=bool(int(fields[6]) & _KERNEL_THREAD),
        own=user + system,
        waited=of_children + system_of_children,
    )


def _families(processes: Collection[_Process], heads: set[int]) -> list[_Process]:
    """Processes of these numbers, and all that descend from them.

    When one ends, its time passes to what waited for it: the family's sum goes on.
    """
    ours = set(heads)
    while True:
        found = [one for one in processes if one.identity[0] in ours or one.parent in ours]
        numbers = heads | {one.identity[0] for one in found}
        if numbers == ours:
            return found
        ours = numbers
