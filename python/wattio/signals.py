"""Signals that ask a program to end: handlers for a while, and none where one is ignored."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

Handler = Callable[[int, FrameType | None], object]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, `kill` and the end of a service, and a terminal that goes away."""


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


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM, and a terminal that goes away, end what is measured as Ctrl-C does.

    Everything is taken down and put back then.
    """
    with handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
        yield
