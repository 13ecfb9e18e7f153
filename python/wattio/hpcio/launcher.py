"""The launcher of this rank: where it dies, nobody is left who would end the ranks.

Ranks that no socket connects, as those of different nodes, would compute on for nothing until they
next wait for each other, and hold their node meanwhile.
"""

from __future__ import annotations

import functools
import os
import select
import threading


@functools.cache
def end_with_it() -> None:
    """End this process when its parent does; asleep until then. Once for each process."""
    try:
        handle = os.pidfd_open(os.getppid())
    except OSError:
        # A kernel or a container without it: the ranks' own sockets remain.
        return
    threading.Thread(target=_wait, args=(handle,), name="hpcio-launcher", daemon=True).start()


def _wait(handle: int) -> None:
    watched = select.poll()
    watched.register(handle, select.POLLIN)
    watched.poll()
    os._exit(1)
