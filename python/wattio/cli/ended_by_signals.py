"""Signals that end a measurement as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from wattio.signals import handled


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM, and a terminal that goes away, end what is measured as Ctrl-C does.

    Everything is taken down and put back then.
    """
    with handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
        yield
