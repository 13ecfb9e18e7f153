"""Servers that run in the background: found by the folder that they belong to, and ended.

They are found in /proc by their arguments and working folder, and not by a note of their numbers:
that holds for those of a run that was killed, too.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Collection
from pathlib import Path

from wattio.errors import SystemFailed
from wattio.systems.commands import wait_until

KILLED_S = 20.0
"""How long a killed process may take to go: it may wait for a disk."""


def running(names: Collection[str], folder: Path) -> list[int]:
    """Processes of such program names whose arguments or working folder lie in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_one(entry, names, folder):
            found.append(int(entry.name))
    return sorted(found)


def end(names: Collection[str], folder: Path, grace_s: float) -> None:
    """Ask them to end, kill those that do not within `grace_s`. Raises SystemFailed."""
    if grace_s > 0:
        _signal_all(names, folder, signal.SIGTERM)
        if wait_until(lambda: not running(names, folder), grace_s):
            return
    _signal_all(names, folder, signal.SIGKILL)
    if not wait_until(lambda: not running(names, folder), KILLED_S):
        left = ", ".join(str(pid) for pid in running(names, folder))
        raise SystemFailed(f"processes {left} of {folder} do not end")


def _signal_all(names: Collection[str], folder: Path, number: signal.Signals) -> None:
    for pid in running(names, folder):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # The number may have become somebody else's in between; the handle cannot.
            if _is_one(Path(f"/proc/{pid}"), names, folder):
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)


def _is_one(entry: Path, names: Collection[str], folder: Path) -> bool:
    try:
        command = (entry / "cmdline").read_bytes()
        place = (entry / "cwd").readlink()
        dead = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return False
    program = re.split(rb"[\0 ]", command, maxsplit=1)[0].decode(errors="replace")
    if dead or Path(program).name not in names:
        return False
    return place.is_relative_to(folder) or mentions(command, folder)


def mentions(command: bytes, folder: Path) -> bool:
    """Whether a command line names a folder or something in it, as an argument or in its title."""
    name = re.escape(os.fsencode(folder))
    return re.search(rb"(?:^|[\0 =:])" + name + rb"(?:/|[\0 )]|$)", command) is not None
