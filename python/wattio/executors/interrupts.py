"""Ctrl-C while something is being written."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from wattio import signals


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold Ctrl-C back until what is being written is whole; then raise KeyboardInterrupt.

    Where it is ignored, as shells have it for what they start in the background, it stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    with signals.handled((signal.SIGINT,), lambda number, _: held.append(number)):
        yield
    if held:
        raise KeyboardInterrupt
