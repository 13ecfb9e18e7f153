"""Ctrl-C, and signals that end a program as it does, while something is being written."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from wattio import signals


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold Ctrl-C back until what is being written is whole; then raise KeyboardInterrupt.

    And with it the signals that raise the same here (`signals.ended_by_signals`). Where one
    is ignored, as shells have it for what they start in the background, it stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    numbers = [
        number
        for number in signals.ENDING
        if number == signal.SIGINT or signal.getsignal(number) is signal.default_int_handler
    ]
    with signals.handled(numbers, lambda number, _: held.append(number)):
        yield
    if held:
        raise KeyboardInterrupt
