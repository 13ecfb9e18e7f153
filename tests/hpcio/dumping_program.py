"""A simulation for tests: known fields, and what a test asks to go wrong."""

from __future__ import annotations

import contextlib
import functools
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
from numpy.typing import NDArray
from wattio import hpcio
from wattio.errors import InputError
from wattio.hpcio import DumpFailed, dumps, peers
from wattio.hpcio.account import Account
from wattio.hpcio.library import TYPES
from wattio.hpcio.session import Session

from hpcio.waiting import FOREVER_S, until

SHAPE = (24, 10, 6)


def field(step: int) -> NDArray[np.float32]:
    """The global field of a step."""
    return (np.arange(np.prod(SHAPE), dtype="f4") + 10_000 * step).reshape(SHAPE)


def every(kind: str) -> NDArray[Any]:
    """Numbers of a type, its least and its greatest among them."""
    limits = np.finfo(kind) if kind[0] == "f" else np.iinfo(kind)
    return np.array([limits.min, limits.max, 1, 0], kind)


def whole(task: dict[str, Any], step: int) -> bool:
    return (Path(task["config"]["output"]) / dumps.name(step)).is_dir()


def writer() -> int:
    """The process that writes for this rank, which this one has started."""
    found = Path("/proc/self/task").glob("*/children")
    (process,) = [int(word) for path in found for word in path.read_text().split()]
    return process


def limit_files(size: int) -> None:
    """No file of this rank's writer may be larger."""
    resource.prlimit(writer(), resource.RLIMIT_FSIZE, (size, size))


def dump(session: Session, step: int) -> None:
    """One dump: a field in slabs, and the rank's own number."""
    comm = session.compute_comm
    rows = np.array_split(np.arange(SHAPE[0]), comm.Get_size())[comm.Get_rank()]
    shape = (len(rows), *SHAPE[1:])
    offset = (int(rows[0]) if len(rows) else 0, 0, 0)
    session.allocate("theta", shape, "f4", SHAPE, offset)[...] = field(step)[rows]
    session.allocate("rank", (1,), "i8")[...] = session.rank
    session.end_dump(step)


def varied(step: int, rank: int) -> dict[str, NDArray[np.float64]]:
    """Other variables every third step, in another order."""
    random = np.random.default_rng(step // 3)
    kinds = random.permutation(4)[: random.integers(1, 5)]
    return {f"v{kind}": np.arange(5.0 * (kind + 1)) + 100 * rank + step for kind in kinds.tolist()}


def dump_varied(session: Session, step: int) -> None:
    """A dump of what no other dump may have; shapes are tuples and, now and then, lists."""
    for name, data in varied(step, session.rank).items():
        shape = list(data.shape) if step % 5 == 4 else data.shape
        session.allocate(name, shape)[...] = data
    session.end_dump(step)


def tell_of_sleep(path: Path) -> None:
    """Leave a file when this process waits for other ranks asleep."""
    wait = peers.wait

    def telling(request: MPI.Request) -> None:
        path.touch()
        wait(request)

    peers.wait = telling


def steps_of(task: dict[str, Any]) -> list[Any]:
    """The steps to dump, as a program may count them."""
    steps: list[Any] = task["steps"]
    return [np.int64(step) for step in steps] if task.get("numpy_steps") else steps


def process_of(folder: Path, rank: int) -> Path:
    """Where a rank tells the number of its process."""
    return folder / f"rank-{rank}"


def run(task: dict[str, Any]) -> None:
    comm = MPI.COMM_WORLD
    config = hpcio.Config.model_validate(task["config"])
    if task.get("killed") == "by the test":
        process_of(config.output.parent, comm.Get_rank()).write_text(str(os.getpid()))
    if task.get("idle") == comm.Get_rank():
        tell_of_sleep(config.output.parent / "sleeps")
    if task.get("killed") == comm.Get_rank():
        killer = threading.Thread(target=die_after, args=(task,), daemon=True)
        killer.start()
    session = hpcio.start(comm, config)
    writes = session.is_writer or config.approach == "tp"
    if writes and task.get("limited", comm.Get_rank()) == comm.Get_rank() and "limit" in task:
        limit_files(task["limit"])
    comm.Barrier()
    if not session.is_writer:
        simulate(session, task)
    try:
        account = session.close()
    except DumpFailed as failed:
        if task.get("telling"):
            (config.output.parent / f"told-{comm.Get_rank()}").write_text(str(failed))
        if not task.get("going") or not isinstance(failed.account, Account):
            raise
        account = failed.account
    if comm.Get_rank() == 0:
        sys.stdout.write(json.dumps(account.as_json()))


def simulate(session: Session, task: dict[str, Any]) -> None:
    if task.get("idle") is not None:
        until((session.config.output.parent / "sleeps").exists)
    if task.get("types"):
        for kind in TYPES:
            session.allocate(kind, (4,), kind)[...] = every(kind)
        session.end_dump(0)
    if "refused" in task:
        with contextlib.suppress(InputError):
            session.allocate("refused", (task["refused"],))
            raise AssertionError("a block that can have no room was taken")
    if "large" in task:
        session.allocate("large", (task["large"],))
    for step in steps_of(task):
        with contextlib.suppress(DumpFailed) if task.get("going") else contextlib.nullcontext():
            (dump_varied if task.get("varied") else dump)(session, step)
        if step in task.get("awaited", []):
            # By all ranks, which otherwise do not wait for each other here.
            until(functools.partial(whole, task, step))
    if task.get("killed") is not None:
        # Somebody dies now; this rank waits as in a step that outlasts the test.
        until(lambda: False, FOREVER_S)


def die_after(task: dict[str, Any]) -> None:
    until(lambda: whole(task, task["steps"][0]))
    os.kill(os.getpid(), signal.SIGKILL)


def run_again(task: dict[str, Any]) -> None:
    """Several sessions, one after the other; what each rank's process holds after each."""
    held: list[list[dict[str, Any]]] = []
    for number in range(task["again"]):
        output = Path(task["config"]["output"]) / str(number)
        config = hpcio.Config.model_validate({**task["config"], "output": output})
        session = hpcio.start(MPI.COMM_WORLD, config)
        if not session.is_writer:
            for step in task["steps"]:
                dump(session, step)
        session.close()
        assert session._comm == MPI.COMM_NULL
        # A thread that watches a connection ends when that is closed, and not at once.
        until(lambda: not any(name.startswith("wattio-io") for name in threads()))
        if len(held) > 1:
            goes_back_to(held[1][MPI.COMM_WORLD.Get_rank()]["files"])
        held.append(MPI.COMM_WORLD.allgather(holds()))
    if MPI.COMM_WORLD.Get_rank() == 0:
        sys.stdout.write(json.dumps(held))


def threads() -> list[str]:
    """The names of this process's threads, of the library's too."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            names.append(path.read_text().strip())
    return names


def goes_back_to(count: int) -> None:
    """Wait until no more files are open than before: MPI's own threads open and close some, too."""
    until(lambda: files() <= count)


def files() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def holds() -> dict[str, Any]:
    """What this process has open and mapped, and how it is scheduled."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "files": files(),
        "maps": [line for line in maps if "memfd:" in line],
        "scheduler": os.sched_getscheduler(0),
    }


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    (run_again if "again" in given else run)(given)
