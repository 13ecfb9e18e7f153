"""The load of drives: `python -m wattio.calibration.disk_load DESCRIPTOR BYTES READERS`.

So many processes read blocks of a file at random past the page cache, each one after the other,
until standard input ends. The file is an open descriptor: it has no name, and goes with its users.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import select
import sys

BLOCK = 4096
_READS = 64
"""Between two looks at standard input."""


def main(descriptor: int, size: int, readers: int) -> None:
    """Read until standard input ends. Raises OSError where reading fails."""
    for _ in range(readers - 1):
        if os.fork() == 0:
            break
    # Memory of whole pages: what O_DIRECT asks for.
    block = mmap.mmap(-1, BLOCK)
    drawn = random.Random(os.getpid())  # noqa: S311
    blocks = size // BLOCK
    while not select.select([0], [], [], 0.0)[0]:
        for _ in range(_READS):
            os.preadv(descriptor, [block], drawn.randrange(blocks) * BLOCK)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
