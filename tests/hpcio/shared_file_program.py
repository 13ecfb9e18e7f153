"""A simulation for tests of dumps in one file: odd blocks, and what a test asks to go wrong."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from wattio import hpcio
from wattio.errors import DumpFailed
from wattio.hpcio import shared_file
from wattio.hpcio.session import Session

from hpcio.dumping_program import Gate, dump, open_at_stall, whole
from hpcio.waiting import until

GRID = (3, 8, 12)
CUT = (2, 2)


def number(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[Any]]:
    return np.arange(np.prod(shape)).reshape(shape)


def odd_dump(session: Session, step: int) -> None:
    """Four computing ranks: a field cut along two axes, halos, and blocks of all kinds."""
    rank = session.compute_comm.Get_rank()
    rows, columns = (GRID[1] // CUT[0], GRID[2] // CUT[1])
    y, x = rank // CUT[1] * rows, rank % CUT[1] * columns
    place = np.s_[:, y : y + rows, x : x + columns]
    wind = session.allocate("wind", (GRID[0], rows, columns), "c16", GRID, (0, y, x))
    wind[...] = number(GRID)[place] * 1j + step
    first = max(y - 1, 0)
    halo = np.s_[:, first : y + rows, x : x + columns]
    shape = (GRID[0], y + rows - first, columns)
    session.allocate("halo", shape, "f2", GRID, (0, first, x))[...] = number(GRID)[halo]
    session.allocate("wet", (), "?")[...] = rank == 2
    session.allocate("none", (0, 3), "i4")
    # Only the first rank has rows of it.
    own = 5 if rank == 0 else 0
    session.allocate("rows", (own,), "u1", (5,), (0 if rank == 0 else 5,))[...] = 7
    session.end_dump(step)


def die_at(step: int) -> None:
    """Die where others wait for this process, in the agreement before the file is opened."""
    obstacle = shared_file.obstacle

    def dying(path: Path) -> str | None:
        if f"{step:08}" in str(path):
            os.kill(os.getpid(), signal.SIGKILL)
        return obstacle(path)

    shared_file.obstacle = dying


def run_out_of_files() -> None:
    """This process cannot open another file once a dump is to be filled."""
    obstacle = shared_file.obstacle

    def limited(path: Path) -> str | None:
        kept = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, kept[1]))
        try:
            return obstacle(path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, kept)

    shared_file.obstacle = limited


def hold(gate: Gate) -> None:
    """Hold the process in its first dump until the gate opens."""
    obstacle = shared_file.obstacle

    def held(path: Path) -> str | None:
        if not gate.reached.exists():
            gate.reached.touch()
            until(gate.opened.exists)
        return obstacle(path)

    shared_file.obstacle = held


def simulate(session: Session, task: dict[str, Any], gate: Gate) -> list[str]:
    """The dumps of a computing rank; what failed."""
    failed = []
    rank = session.rank
    if task.get("stalls"):
        opener = threading.Thread(target=open_at_stall, args=(session, gate), daemon=True)
        opener.start()
    for step in task["steps"]:
        if task.get("ends") == rank and step == task["steps"][-1]:
            break
        own = step + (task.get("strays") == rank and step == task["steps"][-1])
        try:
            (odd_dump if task.get("odd") else dump)(session, own)
        except DumpFailed as error:
            failed.append(str(error))
        if task.get("held") is not None and step == 0:
            until(gate.reached.exists)
    if task.get("dies") is not None:
        until(lambda: whole(task, task["steps"][0]))
    gate.opened.touch()
    return failed


def run(task: dict[str, Any]) -> None:
    comm = MPI.COMM_WORLD
    config = hpcio.Config.model_validate({"aggregation": "dump", **task["config"]})
    gate = Gate(config.output.parent)
    rank = comm.Get_rank()
    if task.get("dies") == rank:
        die_at(task["steps"][-1])
    if task.get("short") == rank:
        run_out_of_files()
    if task.get("held") == rank:
        hold(gate)
    session = hpcio.start(comm, config)
    failed = [] if session.is_writer else simulate(session, task, gate)
    account: Any = None
    try:
        account = session.close()
    except DumpFailed as error:
        failed.append(str(error))
        account = error.account
    everybody = comm.gather(failed)
    if rank == 0:
        sys.stdout.write(json.dumps({"account": account.as_json(), "failed": everybody}))


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
