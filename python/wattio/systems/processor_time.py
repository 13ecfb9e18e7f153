"""What a process takes of the processors, with its threads and children, from outside.

The kernel's clock of the process counts all of its threads, those that have ended and those that
io_uring works with (`iou-wrk`, `iou-sqp`) too, in nanoseconds. Children that are there are read by
their own clocks; those that have ended only by their parent's account, in ticks of 10 ms. What the
kernel does elsewhere for it is in neither: interrupts and the block layer's completions, and the
writing back of its pages (kworkers).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_CLOCK_OF_PROCESS = 2
"""Low bits of the number of a process's clock of processor time (clock_getcpuclockid(3))."""

_PPID, _CUTIME, _CSTIME = 1, 13, 14
"""Fields of /proc/PID/stat after the name: parent; user and system ticks of waited-for children."""


def of_tree(pid: int, proc: Path = Path("/proc")) -> float:
    """User and system seconds of a process and all that it started. Raises ProcessLookupError."""
    total_s = _of_process(pid)
    children: dict[int, list[int]] = {}
    fields = dict(_stats(proc))
    for child, found in fields.items():
        children.setdefault(found[_PPID], []).append(child)
    if pid not in fields:
        raise ProcessLookupError(f"process {pid} is gone")
    left = [pid]
    while left:
        parent = left.pop()
        total_s += (fields[parent][_CUTIME] + fields[parent][_CSTIME]) * _TICK_S
        for child in children.get(parent, ()):
            left.append(child)
            try:
                total_s += _of_process(child)
            except ProcessLookupError:
                # It ended just now: its parent's account has it the next time.
                continue
    return total_s


def _of_process(pid: int) -> float:
    try:
        return time.clock_gettime((~pid << 3) | _CLOCK_OF_PROCESS)
    except OSError as error:
        raise ProcessLookupError(f"process {pid} is gone") from error


def _stats(proc: Path) -> Iterator[tuple[int, list[int]]]:
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            rest = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        yield int(entry.name), [int(word) if word.isdigit() else 0 for word in rest]
