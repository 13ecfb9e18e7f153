"""A process with threads that wait: `threads.py COUNT`, every tenth of them pinned to processor 1.

Prints "ready" when all are there, and ends with its input.
"""

import os
import sys
import threading
from pathlib import Path

PINNED_EVERY = 10


def wait(number: int, ready: threading.Barrier, end: threading.Event) -> None:
    """What each thread does."""
    if number % PINNED_EVERY == PINNED_EVERY - 1:
        os.sched_setaffinity(0, {1})
    ready.wait()
    end.wait()


def main() -> None:
    """Wait until the input ends."""
    count = int(sys.argv[1])
    Path("/proc/self/comm").write_text(f"wt-{os.getpid()}")
    threading.stack_size(1 << 16)
    ready, end = threading.Barrier(count), threading.Event()
    for number in range(count - 1):
        threading.Thread(target=wait, args=(number, ready, end)).start()
    ready.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    end.set()


if __name__ == "__main__":
    main()
