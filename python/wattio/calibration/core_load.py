"""The load of cores: `python -m wattio.calibration.core_load LOAD CORE,CORE,...`.

One process for each core, pinned there, is busy for a share of its time, until standard input
ends: so none outlives the one who asked, however that one ended.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import sys
import time

PERIOD_S = (0.015, 0.045)
"""Bounds of a period. Each is drawn anew: in step with the kernel's tick, its count would lie."""


def main(load: float, cores: list[int]) -> None:
    """Load the cores until standard input ends. Raises OSError where a core cannot be had."""
    for core in cores[1:]:
        if os.fork() == 0:
            cores = [core]
            break
    os.sched_setaffinity(0, cores[:1])
    _spin(load)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _spin(load: float) -> None:
    while True:
        start_s = time.monotonic()
        period_s = random.uniform(*PERIOD_S)  # noqa: S311
        while time.monotonic() - start_s < load * period_s:
            pass
        rest_s = start_s + period_s - time.monotonic()
        if select.select([0], [], [], max(rest_s, 0.0) if load < 1 else 0.0)[0]:
            return


if __name__ == "__main__":
    main(float(sys.argv[1]), [int(core) for core in sys.argv[2].split(",")])
