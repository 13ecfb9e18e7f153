"""Servers that run in the background: found by the folder that they belong to, and ended.

They are found in /proc by their arguments and working folder, or by their environment, and not by a
note of their numbers: that holds for those of a run that was killed, too.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path

from wattio.errors import SystemFailed
from wattio.systems.commands import wait_until

KILLED_S = 20.0
"""How long a killed process may take to go: it may wait for a disk."""

_STARTERS = frozenset({"env", "setsid", "sh"})
"""What a process may be just before it becomes the server that its arguments name."""


Is = Callable[[Path], bool]
"""Whether a process, as a folder of /proc, is one that is looked for."""


def running(names: Collection[str], folder: Path) -> list[int]:
    """Processes of such program names whose arguments or working folder lie in a folder."""
    return _found(lambda entry: _is_one(entry, names, folder))


def end(names: Collection[str], folder: Path, grace_s: float) -> None:
    """Ask them to end, kill those that do not within `grace_s`. Raises SystemFailed."""
    _end(lambda entry: _is_one(entry, names, folder), f"of {folder}", grace_s)


def marked(variable: str, value: str) -> list[int]:
    """Processes that were started with a variable in their environment; not those above this."""
    return _found(_bears(variable, value))


def end_marked(variable: str, value: str, grace_s: float) -> None:
    """End them, as `end` does. Raises SystemFailed."""
    _end(_bears(variable, value), f"with {variable}={value}", grace_s)


def _found(is_one: Is) -> list[int]:
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted(int(entry.name) for entry in entries if is_one(entry))


def _end(is_one: Is, what: str, grace_s: float) -> None:
    if grace_s > 0:
        _signal_all(is_one, signal.SIGTERM)
        if wait_until(lambda: not _found(is_one), grace_s):
            return

    def gone() -> bool:
        # In each round: one that was being started when the others were killed is seen later.
        _signal_all(is_one, signal.SIGKILL)
        return not _found(is_one)

    if not wait_until(gone, KILLED_S):
        raise SystemFailed(f"processes {', '.join(map(str, _found(is_one)))} {what} did not end")


def _signal_all(is_one: Is, number: signal.Signals) -> None:
    for pid in _found(is_one):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # The number may have become somebody else's in between; the handle cannot.
            if is_one(Path(f"/proc/{pid}")):
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)


def _bears(variable: str, value: str) -> Is:
    above = _above()
    wanted = f"{variable}={value}".encode()

    def is_one(entry: Path) -> bool:
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            return False
        # A dead process has no environment any more.
        return int(entry.name) not in above and wanted in environment.split(b"\0")

    return is_one


def _above() -> set[int]:
    """This process and those above it."""
    found: set[int] = set()
    pid = os.getpid()
    while pid and pid not in found:
        found.add(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            break
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


def _is_one(entry: Path, names: Collection[str], folder: Path) -> bool:
    try:
        command = (entry / "cmdline").read_bytes()
        place = (entry / "cwd").readlink()
        dead = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return False
    return not dead and belongs(command, place, names, folder)


def belongs(command: bytes, place: Path, names: Collection[str], folder: Path) -> bool:
    """Whether a process with such arguments and working folder is of a name, and of a folder.

    A shell that is about to become the server counts as it.
    """
    program = _name(re.split(rb"[\0 ]", command, maxsplit=1)[0])
    if program in _STARTERS:
        words = command.split(b"\0")
        # What follows an option may be a script that only speaks of it.
        named = (word for before, word in pairwise(words) if not before.startswith(b"-"))
        is_one = any(_name(word) in names for word in named)
    else:
        is_one = program in names
    if not is_one:
        return False
    return place.is_relative_to(folder) or mentions(command, folder)


def _name(program: bytes) -> str:
    return Path(program.decode(errors="replace")).name


def mentions(command: bytes, folder: Path) -> bool:
    """Whether a command line names a folder or something in it, as an argument or in its title."""
    name = re.escape(os.fsencode(folder))
    return re.search(rb"(?:^|[\0 =:])" + name + rb"(?:/|[\0 )]|$)", command) is not None
