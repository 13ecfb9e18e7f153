"""What the ranks of `dumping.py` do; the first one prints seconds as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from wattio import hpcio
from wattio.hpcio import dumps
from wattio.hpcio.session import Session

COUNT = 64 << 17
"""Numbers of 8 B in a dump of 64 MiB."""


def cpu_s_of(process: int) -> float:
    """Processor time of all threads of a process and its children, to the nanosecond."""
    threads = Path(f"/proc/{process}/task")
    own = sum(int(file.read_text().split()[0]) for file in threads.glob("*/schedstat")) / 1e9
    children = [one for file in threads.glob("*/children") for one in file.read_text().split()]
    return own + sum(cpu_s_of(int(child)) for child in children)


def written(session: Session, step: int) -> None:
    """Wait until a dump is on its disk, so that the next one is measured by itself."""
    folder = session.config.output / dumps.name(step)
    while not folder.is_dir():
        time.sleep(0.01)
    session.compute_comm.Barrier()
    if session.rank == 0:
        shutil.rmtree(folder)
    session.compute_comm.Barrier()


def dump(session: Session, source: NDArray[np.float64], step: int, *, copy: bool) -> float:
    """One dump; how long the simulation was blocked. In place, filling it is computing."""
    began_s = time.perf_counter()
    buffer = session.allocate("field", (COUNT,))
    blocked_s = time.perf_counter() - began_s
    if copy:
        np.copyto(buffer, source)
        blocked_s = time.perf_counter() - began_s
    else:
        buffer[:] = source
    began_s = time.perf_counter()
    session.end_dump(step)
    return blocked_s + time.perf_counter() - began_s


def dumping(task: dict[str, Any]) -> dict[str, list[float]] | None:
    """Copied dumps and such that are filled in place, in turn with a plain copy."""
    session = hpcio.start(MPI.COMM_WORLD, hpcio.Config.model_validate(task["config"]))
    if session.is_writer:
        session.close()
        return None
    source, target = np.random.default_rng(1).random(COUNT), np.ones(COUNT)
    found: dict[str, list[float]] = {"memcpy": [], "copy": [], "place": []}
    for number in range(task["dumps"]):
        session.compute_comm.Barrier()
        began_s = time.perf_counter()
        np.copyto(target, source)
        found["memcpy"].append(time.perf_counter() - began_s)
        for at, name in enumerate(("copy", "place")):
            step = 2 * number + at
            found[name].append(dump(session, source, step, copy=name == "copy"))
            written(session, step)
    session.close()
    return found


def idle(task: dict[str, Any]) -> dict[str, list[float]] | None:
    """Processor time of the last rank while it waits for the first one's dump, or message."""
    comm = MPI.COMM_WORLD
    processes = comm.allgather(os.getpid())
    session = None
    if task["config"] is not None:
        session = hpcio.start(comm, hpcio.Config.model_validate(task["config"]))
        if session.is_writer:
            session.close()
            return None
    elif comm.Get_rank():
        comm.Recv(np.empty(1), 0)
        return None
    time.sleep(task["settle_s"])
    before_s, began_s = cpu_s_of(processes[-1]), time.monotonic()
    time.sleep(task["span_s"])
    cpu_s, wall_s = cpu_s_of(processes[-1]) - before_s, time.monotonic() - began_s
    if session is None:
        comm.Send(np.zeros(1), 1)
    else:
        session.close()
    return {"cpu": [cpu_s], "wall": [wall_s]}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    result = {"dumping": dumping, "idle": idle}[given["what"]](given)
    if result is not None and MPI.COMM_WORLD.Get_rank() == 0:
        sys.stdout.write(json.dumps(result))
