"""What MPI jobs that were killed leave in `/dev/shm`.

The memory that ranks share with writers has no name there. Open MPI's has, and stays where the
launcher itself was killed. MPICH's has one until all ranks have mapped it, and stays where they are
killed before that.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

SHARED = Path("/dev") / "shm"
OPENMPI = ("sm_segment.*", "vader_segment.*")
"""Open MPI's names, of version 5 and of those before; the host is in them."""

MPICH = ("mpich_shar_tmp*",)
"""MPICH's, of version 4."""


OLD_S = 60.0
"""How old a segment is before it can be a left-over: ranks that start may not have mapped it."""


def remove(now_s: float, shared: Path = SHARED, processes: Path = Path("/proc")) -> list[Path]:
    """Remove this user's segments that no process has mapped; what was removed.

    `now_s` is the time since 1970, in seconds.
    """
    candidates = [
        path
        for pattern in OPENMPI + MPICH
        for path in shared.glob(pattern)
        if _is_ours(path, now_s, named=pattern in OPENMPI)
    ]
    if not candidates:
        return []
    mapped = _mapped(processes)
    removed = []
    for path in candidates:
        if str(path) not in mapped:
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(path)
    return removed


def _is_ours(path: Path, now_s: float, *, named: bool) -> bool:
    """Whether this user made it on this host, and long enough ago for all ranks to have it.

    `named`: the name tells the host. Where it does not, the folder's host it is.
    """
    try:
        found = path.lstat()
    except OSError:
        # Another job has just ended, and taken it along.
        return False
    made_here = not named or f".{socket.gethostname().partition('.')[0]}." in path.name
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return own and made_here and now_s - found.st_mtime > OLD_S


def _mapped(processes: Path) -> str:
    """What this user's processes have mapped."""
    found = []
    for folder in processes.glob("[0-9]*"):
        try:
            if folder.stat().st_uid == os.geteuid():
                found.append((folder / "maps").read_text(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            # Of another program, which holds its privileges to itself; MPI ranks do not.
            continue
    return "\n".join(found)
