"""Runs of SimGrid, each in a process of the Python that has its module, beside the model's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wattio.errors import InputError, ResultError

from validation.io.simgrid.cases import Case
from validation.io.simgrid.rows import Parameters, Row, Simulated, compare

ROOT = Path(__file__).parents[3]
"""The folder that holds `validation`, which a process must begin in to find the program."""

PROGRAM = "validation.io.simgrid.dumps"
PYTHON = "/usr/bin/python3"
INSTALL = "Debian's python3-simgrid has it: apt-get install python3-simgrid"
TIMEOUT_S = 600

Simulator = Callable[[Parameters], Simulated]


class NoSimGridError(InputError):
    """SimGrid's module is not there."""


def simulate(run: Parameters, python: str = PYTHON) -> Simulated:
    """One run by SimGrid. Raises NoSimGridError and ResultError."""
    try:
        done = subprocess.run(
            [python, "-m", PROGRAM],
            input=json.dumps(run),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            cwd=ROOT,
        )
    except OSError as error:
        raise NoSimGridError(f"{python} cannot be started: {error.strerror}. {INSTALL}") from error
    except subprocess.TimeoutExpired as error:
        raise ResultError(f"{PROGRAM} took longer than {TIMEOUT_S} s") from error
    if done.returncode != 0:
        if "No module named 'simgrid'" in done.stderr:
            raise NoSimGridError(f"{python} has no module simgrid. {INSTALL}")
        last = (done.stderr.strip().splitlines() or ["no words"])[-1]
        raise ResultError(f"{PROGRAM} ended with {done.returncode}: {last}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def check(
    chosen: Sequence[Case],
    simulator: Simulator = simulate,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> list[Row]:
    """All cases, as many at a time as there are processors. Raises what `simulate` does."""
    rows: list[Row] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            for row in pool.map(lambda case: compare(case, simulator(case.simulated())), chosen):
                rows.append(row)
                told(len(rows), len(chosen))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return rows
