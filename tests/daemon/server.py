"""A command that plays a storage server: tells latencies that depend on the cores it was left.

`server.py CPUSET_FILE REQUESTS_FILE`: each 50 ms one line, as the source `exec` takes it. Every
request takes 200 us of work; the fewer cores, the longer it waits, as in an M/M/n queue's fluid
limit. REQUESTS_FILE holds the requests a second, so that a test can change the load.
"""

import json
import sys
import threading
from contextlib import suppress
from pathlib import Path

WORK_S = 40e-6
ELSEWHERE_US = 160.0
TICK_S = 0.05


def cores(text: str) -> int:
    """How many processors a list names; 0 for none."""
    count = 0
    if not text.strip():
        return count
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def main() -> None:
    """Tell until nobody reads."""
    cpuset, rate_file = Path(sys.argv[1]), Path(sys.argv[2])
    pause = threading.Event()
    count = 1
    while not pause.wait(TICK_S):
        rate = float(rate_file.read_text())
        # A service that restarts has no control group for a moment, and then an empty one.
        with suppress(OSError):
            count = cores(cpuset.read_text()) or count
        load = min(rate * WORK_S / count, 0.98)
        latency_us = ELSEWHERE_US + WORK_S * 1e6 / (1.0 - load)
        requests = int(rate * TICK_S)
        line = {"requests": requests, "utilisation": [load]}
        if requests:
            line["latency_us_mean"] = latency_us
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
