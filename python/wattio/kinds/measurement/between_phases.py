"""Between phases: servers that still delete are waited for, and servers that die are noticed.

A file system that answers "deleted" has often only made a note of it. What its servers then do
would be measured with whatever comes next; it is waited for, and charged to the phase that caused
it unless the system's options say `deletes = "waited"`.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator, Sequence

from wattio.clock import now
from wattio.errors import Cancelled, SystemFailed, WattioError

LIMIT_S = 900.0
"""How long to wait at most; MooseFS looks at each chunk once in 5 min."""

_POLL_S = 0.5


def wait(
    left: Callable[[], int | None], cancelled: threading.Event, limit_s: float = LIMIT_S
) -> tuple[float, str | None]:
    """Wait until nothing is left: for how many seconds, and what is doubtful about it.

    No time where nothing was left at the first look. Raises Cancelled.
    """
    began_ns = now().monotonic_ns
    waited_s = 0.0
    count = _count(left)
    while count:
        if waited_s >= limit_s:
            return waited_s, f"servers still had {count} deletes to do after {limit_s:g} s"
        if cancelled.wait(_POLL_S):
            raise Cancelled("stopped")
        count = _count(left)
        waited_s = (now().monotonic_ns - began_ns) / 1e9
    return waited_s, "servers did not say whether they still delete" if count is None else None


def _count(left: Callable[[], int | None]) -> int | None:
    try:
        return left()
    except SystemFailed:
        return None


@contextlib.contextmanager
def watched(processes: Sequence[int], fallen: Callable[[], None] | None) -> Iterator[None]:
    """Call `fallen` once if one of some processes ends meanwhile; costs nothing while none does."""
    if fallen is None or not processes:
        yield
        return
    with contextlib.ExitStack() as stack:
        poll = select.poll()
        for pid in processes:
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(pid)
                stack.callback(os.close, handle)
                poll.register(handle, select.POLLIN)
        done = os.eventfd(0)
        stack.callback(os.close, done)
        poll.register(done, select.POLLIN)

        def look() -> None:
            if all(number != done for number, _ in poll.poll()):
                with contextlib.suppress(WattioError):
                    fallen()

        thread = threading.Thread(target=look, name="wattio-fallen", daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.eventfd_write(done, 1)
            thread.join()
