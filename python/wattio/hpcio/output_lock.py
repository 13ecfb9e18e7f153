"""One job at a time writes into an output folder: a lock on a file there, while a session lasts.

The kernel lets go of it when the process ends, however that was. It is a lock of POSIX, which NFS
keeps for all its clients. Where a file system has none, a job goes on without: it is a precaution.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path

from wattio.errors import InputError

NAME = ".lock"
_TEXT_BYTES = 200


class Lock:
    """A process's lock on an output folder. What a process holds, it may take again."""

    def __init__(self, output: Path) -> None:
        """Make the folder and take the lock. Raises InputError where another process has it."""
        self._path = output / NAME
        self._file: int | None = None
        try:
            output.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError):
            # Whoever writes there will tell.
            return
        with contextlib.suppress(OSError):
            self._take()

    def close(self) -> None:
        """Let go of it, and leave nothing."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            if self._is_in_place(self._file):
                self._path.unlink()
        os.close(self._file)
        self._file = None

    def _take(self) -> None:
        while self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._refusal(file) from None
            except OSError:
                # The file system has no locks.
                pass
            if self._is_in_place(file):
                self._file = file
            else:
                # The holder before has removed it since it was opened.
                os.close(file)
        self._sign(self._file)

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except FileNotFoundError:
            return False

    def _sign(self, file: int) -> None:
        os.ftruncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())

    def _refusal(self, file: int) -> InputError:
        holder = "which, it does not tell"
        with contextlib.suppress(OSError):
            holder = os.read(file, _TEXT_BYTES).decode(errors="replace") or holder
        os.close(file)
        return InputError(
            f"output {self._path.parent}: another job writes there ({holder}): wait for its end, or"
            f" choose another folder; where there is none any more, remove {self._path}"
        )
