"""Waiting for other ranks asleep: MPI's own wait takes the whole core."""

from __future__ import annotations

import time

from mpi4py import MPI

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.001, 0.010
"""How long one sleeps between two looks: at first, and at last."""


def wait(request: MPI.Request) -> None:
    """Wait until a request is done, with a look now and then."""
    pause_s = _PAUSE_S_MIN
    while not request.Test():
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
