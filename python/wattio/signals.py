"""Signals that ask a program to end: handlers for a while, and none where one is ignored."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

Handler = Callable[[int, FrameType | None], object]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, `kill` and the end of a service, and a terminal that goes away."""

SLICE_S = 0.02
"""How soon a flag that is waited for is seen."""


@contextlib.contextmanager
def handled(numbers: Sequence[int], handler: Handler) -> Iterator[None]:
    """Handle signals while entered, and as before afterwards. For the main thread.

    One that is ignored stays so: `nohup` has it so for SIGHUP, and shells for SIGINT of what they
    start in the background.
    """
    taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


@contextlib.contextmanager
def noted(numbers: Sequence[int] = ENDING) -> Iterator[Callable[[], bool]]:
    """Note signals while entered, and tell whether one came; a second one raises KeyboardInterrupt.

    What is under way ends in good order then, and cleans up at the second one, too.
    """
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    with handled(numbers, note):
        yield lambda: bool(received)


class Flag(threading.Event):
    """An event that the handler of a signal may set.

    The lock of an Event may be held, in `wait`, by the very thread that a handler interrupts, which
    would then wait for itself for ever. This one has none: `wait` looks again and again.
    """

    def __init__(self) -> None:
        """It is not set."""
        super().__init__()
        self._raised = False

    def set(self) -> None:
        """Set it, for good."""
        self._raised = True

    def clear(self) -> None:
        """It stays set: nobody takes back that a signal came."""
        raise NotImplementedError("a signal that came is not taken back")

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._raised

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or so many seconds; whether it is set."""
        end_s = None if timeout is None else time.monotonic() + timeout
        while not self._raised:
            left_s = SLICE_S if end_s is None else end_s - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(SLICE_S, left_s))
        return self._raised


@contextlib.contextmanager
def flagged(numbers: Sequence[int] = ENDING) -> Iterator[Flag]:
    """Set a flag when a signal comes while entered; a second one raises KeyboardInterrupt."""
    flag = Flag()

    def note(_: int, __: FrameType | None) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    with handled(numbers, note):
        yield flag


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM, and a terminal that goes away, end what runs here as Ctrl-C does.

    Everything is taken down and put back then.
    """
    with handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
        yield
