"""Waiting for what has to come, in tests and in the programs that they start."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

HANGS_S = 120.0
"""What has not ended by then never will: many times what it takes on a slow machine."""

FOREVER_S = 600.0
"""How long a rank of a test computes that nobody ends."""


def until(condition: Callable[[], bool], within_s: float = HANGS_S) -> None:
    """Wait for a condition; it has to come."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError
        time.sleep(0.005)


def runs(process: int) -> bool:
    """Whether a process is there, and more than an entry that nobody has collected."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"
