"""A meter of known coefficients on this host: `python -m calibration.simulated_meter FILE JSON`.

It adds a line of power to a CSV file five times a second, computed from what the cores of this host
really did since the line before, by its own reading of /proc/stat. JSON holds the watts of `rest`,
`core`, `busy`. Ends when its standard input does.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path

PERIOD_S = 0.2


def ticks() -> dict[str, tuple[int, int]]:
    """Busy and all ticks of each core; what a hypervisor took is neither."""
    found = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *rest = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, idle, waiting, irq, softirq = map(int, rest[:7])
            busy = user + nice + system + irq + softirq
            found[name] = (busy, busy + idle + waiting)
    return found


def main(path: Path, watts: dict[str, float]) -> None:
    before = ticks()
    with path.open("w", buffering=1) as file:
        file.write("utc_ns,power_w\n")
        while not select.select([0], [], [], PERIOD_S)[0]:
            now = ticks()
            busy = 0.0
            for core, (used, total) in now.items():
                used_before, total_before = before.get(core, (used, total))
                if total > total_before:
                    busy += max(used - used_before, 0) / (total - total_before)
            power_w = watts["rest"] + watts["core"] * len(now) + watts["busy"] * busy
            file.write(f"{time.time_ns()},{power_w:.6f}\n")
            before = now


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
