"""Stand-ins for programs that no package has: they take what the manuals say, and refuse the rest.

`doubled.py` installs them, and is a machine to them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

MOUNTS = "mounts"
"""The file, beside what servers know, in which a mount is a line."""


def stay(arguments: Sequence[str]) -> int:
    """Leave a process in the background with such a command line; its number.

    It is a shell that waits for a line that nobody writes, and ends when it is told to.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(ours, 0)
        os.set_inheritable(theirs, True)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.execv("/bin/sh", [arguments[0], "-c", "read -r _", *arguments[1:]])
    return pid


def say(line: str) -> None:
    """Tell a line."""
    sys.stdout.write(f"{line}\n")


def refuse(message: str) -> None:
    """End as a program does that does not take what it was given."""
    sys.stderr.write(f"{message}\n")
    sys.exit(1)


def is_there(pid: int) -> bool:
    """Whether a process that was left is still at work."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
