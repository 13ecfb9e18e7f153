"""An LMG450 behind a pseudo-terminal: answers, sends 20 lines a second, can go wrong."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import termios
import threading
import time
import tty
from collections.abc import Callable

IDENTITY = b"ZES ZIMMER Electronic Systems GmbH, LMG450, 01234567, 3.107\n"
PERIOD_S = 0.05


class Lmg450Peer:
    """The instrument's side; `line` makes the text of each value from its number."""

    def __init__(
        self, line: Callable[[int], bytes] | None = None, identity: bytes = IDENTITY
    ) -> None:
        self.line = line or (lambda number: b"%.5f;%.5f\n" % (120 + number, number * PERIOD_S))
        self.heard: list[bytes] = []
        self.sent = 0
        self._identity = identity
        self._master, slave = pty.openpty()
        tty.setraw(slave, termios.TCSANOW)
        self.path = os.ttyname(slave)
        self._slave = slave
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def unplug(self) -> None:
        """Take the line away."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            os.close(self._slave)
            os.close(self._master)

    def _run(self) -> None:
        sends, due_s, received = False, 0.0, b""
        while not self._ended.is_set():
            wait_s = max(0.0, due_s - time.monotonic()) if sends else 0.02
            if select.select([self._master], [], [], min(wait_s, 0.02))[0]:
                received += os.read(self._master, 4096)
            *lines, received = received.split(b"\n")
            for command in lines:
                self.heard.append(command)
                if command == b"*IDN?":
                    os.write(self._master, self._identity)
                elif command in (b"cont on", b"cont off"):
                    sends, due_s = command == b"cont on", time.monotonic()
            if sends and time.monotonic() >= due_s:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._master, self.line(self.sent))
                self.sent += 1
                due_s += PERIOD_S
