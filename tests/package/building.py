"""One build of packages at a time: builds share folders below `target`, and one that writes the
extension while another packs it makes a wheel that nothing can unpack."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def alone() -> Iterator[None]:
    """Waits until nobody else builds packages of this tree, on any worker of the tests."""
    (ROOT / "target").mkdir(exist_ok=True)
    with (ROOT / "target" / "packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
