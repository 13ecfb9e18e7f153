"""What a meter over a network needs because `close` may come while another thread reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wattio.meters.meter import MeterLost


class Guard:
    """Lets one question through at a time; once closed, lets go as soon as none is under way."""

    def __init__(self, meter: str, release: Callable[[], None]) -> None:
        """`release` is called once, by whichever thread comes last."""
        self._meter, self._release = meter, release
        self._busy, self._closed = threading.Lock(), threading.Event()
        self._released = False

    @contextmanager
    def question(self) -> Iterator[None]:
        """Around each question. Raises MeterLost where the meter is closed."""
        try:
            with self._busy:
                if self._closed.is_set():
                    raise MeterLost(f"{self._meter}: is closed")
                yield
        finally:
            if self._closed.is_set():
                self._release_if_idle()

    def close(self) -> None:
        """No question comes through from now on. May be called twice."""
        self._closed.set()
        self._release_if_idle()

    def _release_if_idle(self) -> None:
        if not self._busy.acquire(blocking=False):
            return
        try:
            if not self._released:
                self._released = True
                self._release()
        finally:
            self._busy.release()
