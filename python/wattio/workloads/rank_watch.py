"""A launcher of MPI ranks that does not end with them: it is told of, so that it can be ended.

Open MPI's has been seen to sleep on for ever after all of its ranks had called MPI_Abort. Only
ranks on this machine are seen, and only while they run: where there are others, as those of
launchers that hand over to daemons, nothing is ever told.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

UNNOTICED_S = 4.0
"""How long a launcher may take to notice that a rank has ended, while others go on."""

ALONE_S = 8.0
"""How long a launcher may take to end after all of its ranks: of good runs, too."""

_UNNOTICED = "did not react to the end of a rank"
_ALONE = "kept running without any rank"
_LOOK_S = 0.5
_PROCESSES = Path("/proc")


class RankWatch:
    """The ranks of one launcher: processes below it whose command lines begin alike."""

    def __init__(
        self,
        program: tuple[str, ...],
        count: int,
        unnoticed_s: float = UNNOTICED_S,
        alone_s: float = ALONE_S,
    ) -> None:
        """So many ranks are looked for; once all are found, looking costs next to nothing."""
        self._program = [word.encode() for word in program]
        self._count = count
        self._patience_s = {_UNNOTICED: unnoticed_s, _ALONE: alone_s}
        self._handles: dict[int, int] = {}
        self._looked_s = -_LOOK_S
        self._trouble: str | None = None
        self._since_s = 0.0

    def __call__(self, launcher: int) -> str | None:
        """What is wrong with the launcher, by its process number; its ranks are ended then."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return None
        self._looked_s = now_s
        trouble = self._look(launcher)
        if trouble != self._trouble:
            self._trouble, self._since_s = trouble, now_s
        if trouble is None or now_s - self._since_s < self._patience_s[trouble]:
            return None
        for handle in self._handles.values():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        return f"{trouble} for {now_s - self._since_s:.0f} s; it was killed"

    def close(self) -> None:
        """Let go of the ranks."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()

    def _look(self, launcher: int) -> str | None:
        """What is wrong now, whether or not it lasts."""
        if len(self._handles) < self._count:
            self._find(launcher)
        ended = self._ended()
        if not ended:
            return None
        if len(ended) == len(self._handles):
            return _ALONE
        if any(_state(process) == "Z" for process in ended):
            return _UNNOTICED
        return None

    def _find(self, launcher: int) -> None:
        for process in _below(launcher):
            if process not in self._handles and self._is_rank(process):
                # It may have ended meanwhile.
                with contextlib.suppress(OSError):
                    self._handles[process] = os.pidfd_open(process)

    def _is_rank(self, process: int) -> bool:
        try:
            words = (_PROCESSES / str(process) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return words[: len(self._program)] == self._program

    def _ended(self) -> list[int]:
        watched = select.poll()
        for handle in self._handles.values():
            watched.register(handle, select.POLLIN)
        readable = {handle for handle, _ in watched.poll(0)}
        return [process for process, handle in self._handles.items() if handle in readable]


def _below(ancestor: int) -> list[int]:
    """The processes that one has started, and those have."""
    children: dict[int, list[int]] = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        parts = _stat(int(folder.name))
        if len(parts) > 1:
            children.setdefault(int(parts[1]), []).append(int(folder.name))
    found, new = list[int](), [ancestor]
    while new:
        new = [child for parent in new for child in children.get(parent, [])]
        found += new
    return found


def _state(process: int) -> str | None:
    """Z: it has ended, and its parent has not looked."""
    return next(iter(_stat(process)), None)


def _stat(process: int) -> list[str]:
    """State, parent and more; nothing of a process that is not there."""
    try:
        text = (_PROCESSES / str(process) / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
