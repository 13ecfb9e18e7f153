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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from wattio import hpcio
from wattio.hpcio import Config, DumpFailed, dumps, parts, patience
from wattio.hpcio.account import Account
from wattio.hpcio.blocks import Block
from wattio.hpcio.node_writer import NodeWriter
from wattio.hpcio.session import Session

from hpcio.waiting import FOREVER_S, until

SHAPE = (24, 10, 6)

PIECES = {"first": 500, "beginning": 200, "rest": 700}
"""Variables of a dump, and of the next one: the first takes half of the room of the others."""


def field(step: int) -> NDArray[np.float32]:
    """The global field of a step."""
    return (np.arange(np.prod(SHAPE), dtype="f4") + 10_000 * step).reshape(SHAPE)


def whole(task: dict[str, Any], step: int) -> bool:
    return (Path(task["config"]["output"]) / dumps.name(step)).is_dir()


class Gate:
    """Holds the writer in its first dump until the simulation, or a stall, opens it."""

    def __init__(self, folder: Path) -> None:
        self.reached = folder / "reached"
        self.opened = folder / "opened"
        self.writers: list[NodeWriter] = []

    def install(self) -> None:
        """Put the gate before the writing of part files of ranks that only write."""
        write, begin, writers = parts.write, NodeWriter.serve, self.writers

        def gated(
            path: Path,
            step: int,
            process: int,
            blocks: Sequence[tuple[Block, NDArray[Any]]],
            config: Config,
        ) -> list[dict[str, Any]]:
            if not self.reached.exists():
                self.reached.touch()
                until(self._is_open)
            return write(path, step, process, blocks, config)

        def serve(self: NodeWriter) -> None:
            writers.append(self)
            begin(self)

        parts.write = gated
        NodeWriter.serve = serve  # type: ignore[method-assign]

    def _is_open(self) -> bool:
        stalled = any(state.waiting for one in self.writers for state in one._states)
        return self.opened.exists() or stalled


def limit_files(size: int) -> None:
    """No file may be larger, from the first dump on; the memory that is shared, before, may."""
    begin = dumps.Dumps.begin

    def limited(self: dumps.Dumps, step: int) -> Path:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return begin(self, step)

    dumps.Dumps.begin = limited  # type: ignore[method-assign]


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


def dump_in_pieces(session: Session, gate: Gate) -> None:
    """A dump begins beside an older one, and goes on when that is done.

    Free memory lies on both sides of what it has by then, and holds the rest in no single piece.
    """

    def fill(name: str) -> None:
        session.allocate(name, (PIECES[name],))[...] = PIECES[name]

    fill("first")
    session.end_dump(0)
    until(gate.reached.exists)
    fill("beginning")
    gate.opened.touch()
    fill("rest")
    session.end_dump(1)


def tell_of_sleep(path: Path) -> None:
    """Leave a file when this process waits for other ranks asleep."""
    wait = patience.wait

    def telling(request: MPI.Request) -> None:
        path.touch()
        wait(request)

    patience.wait = telling


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
    gate = Gate(config.output.parent)
    if task.get("killed") == "by the test":
        process_of(config.output.parent, comm.Get_rank()).write_text(str(os.getpid()))
    if task.get("idle") == comm.Get_rank():
        tell_of_sleep(config.output.parent / "sleeps")
    if task.get("gated") and comm.Get_rank() == comm.Get_size() - 1:
        gate.install()
    if task.get("killed") == comm.Get_rank():
        killer = threading.Thread(target=die_after, args=(task,), daemon=True)
        killer.start()
    if "limit" in task and task.get("limited", comm.Get_rank()) == comm.Get_rank():
        limit_files(task["limit"])
    session = hpcio.start(comm, config)
    if not session.is_writer:
        simulate(session, task, gate)
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


def simulate(session: Session, task: dict[str, Any], gate: Gate) -> None:
    if task.get("gated") == "stall":
        opener = threading.Thread(target=open_at_stall, args=(session, gate), daemon=True)
        opener.start()
    if task.get("idle") is not None:
        until((gate.opened.parent / "sleeps").exists)
    if task.get("pieces"):
        dump_in_pieces(session, gate)
    for step in steps_of(task):
        with contextlib.suppress(DumpFailed) if task.get("going") else contextlib.nullcontext():
            (dump_varied if task.get("varied") else dump)(session, step)
        if step in task.get("awaited", []):
            # By all ranks, which otherwise do not wait for each other here.
            until(functools.partial(whole, task, step))
        if task.get("gated") and step == 0:
            until(gate.reached.exists)
        if "through" in task and step in task["through"]:
            assert whole(task, step), "a dump that is written through is there at once"
    if task.get("killed") is not None:
        # Somebody dies now; this rank waits as in a step that outlasts the test.
        until(lambda: False, FOREVER_S)
    gate.opened.touch()


def die_after(task: dict[str, Any]) -> None:
    until(lambda: whole(task, task["steps"][0]))
    os.kill(os.getpid(), signal.SIGKILL)


def open_at_stall(session: Session, gate: Gate) -> None:
    until(lambda: session._record.stalled)
    gate.opened.touch()


def run_again(task: dict[str, Any]) -> None:
    """Several sessions, one after the other; what each rank's process holds after each."""
    held = []
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
        until(lambda: not any(one.name == "hpcio-peer" for one in threading.enumerate()))
        held.append(MPI.COMM_WORLD.allgather(holds()))
    if MPI.COMM_WORLD.Get_rank() == 0:
        sys.stdout.write(json.dumps(held))


def holds() -> dict[str, Any]:
    """What this process has open and mapped, and how it is scheduled."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "maps": [line for line in maps if "memfd:wattio" in line],
        "scheduler": os.sched_getscheduler(0),
    }


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    (run_again if "again" in given else run)(given)
