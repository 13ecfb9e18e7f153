"""Ranks of `hpcio`: the mini-app, which hands its dumps to the I/O middleware.

The task holds the middleware's configuration (`config`), the mini-app's plan (`plan`) and, for slow
cores, the folder of their groups (`slow_cores`) and each one's share (`core_share`). Unlike
its siblings this program is nothing but other packages put together: `miniapp` and `hpcio`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import resource
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from wattio import clock, hpcio
from wattio.clock import Instant
from wattio.errors import InputError
from wattio.hpcio import DumpFailed
from wattio.hpcio.account import Account
from wattio.hpcio.session import Session
from wattio.miniapp import checks, loop
from wattio.miniapp.checks import Sums
from wattio.miniapp.domain import Arrangement
from wattio.miniapp.loop import Plan, Times
from wattio.miniapp.model import Model
from wattio.workloads import slow_cores
from wattio.workloads.ranks import HPCIO_PROGRESS, HPCIO_REFUSED, HPCIO_REPORT, VERSION, boot
from wattio.workloads.ranks.team import end_with

_TOLD_EVERY_S = 0.5


@dataclass(frozen=True)
class _Course:
    """What the computing ranks know, on the first of them."""

    model: Model
    arrangement: Arrangement
    before: Sums
    after: Sums
    start: Instant
    computed: Instant
    end: Instant
    times: list[Times]
    cpu_s: float
    ticks: list[str]


class _Progress:
    """Tells on standard output how far the first rank is, not too often."""

    def __init__(self, speaks: bool) -> None:
        self._speaks = speaks
        self._told_s = time.monotonic()

    def __call__(self, step: int) -> None:
        if self._speaks and time.monotonic() - self._told_s >= _TOLD_EVERY_S:
            self._told_s = time.monotonic()
            sys.stdout.write(f"{HPCIO_PROGRESS} {step}\n")
            sys.stdout.flush()


class _TolerantSession:
    """A session whose failed dumps do not end the simulation: the account tells of them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def allocate(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any] | type | str,
        global_shape: tuple[int, ...] | None = None,
        offset: tuple[int, ...] | None = None,
    ) -> NDArray[Any]:
        return self._session.allocate(name, shape, dtype, global_shape, offset)

    def end_dump(self, step: int) -> None:
        with contextlib.suppress(DumpFailed):
            self._session.end_dump(step)

    def close(self) -> Account:
        try:
            return self._session.close()
        except DumpFailed as failed:
            if not isinstance(failed.account, Account):
                raise
            return failed.account


def _compute(session: Session, plan: Plan) -> tuple[Account, _Course | None]:
    """Run the mini-app on the computing ranks, until every dump is written."""
    # Of our own, as the session's ends with it.
    comm = session.compute_comm.Dup()
    assert isinstance(comm, MPI.Intracomm)
    model, arrangement = loop.prepare(plan, comm)
    before = _sums(comm, model)
    comm.Barrier()
    cpu_s, ticks, start = _cpu_s(), [_ticks(comm)], clock.now()
    times = loop.run(model, plan, _TolerantSession(session), _Progress(comm.rank == 0))
    computed = clock.now()
    account = _TolerantSession(session).close()
    cpu_s, end = _cpu_s() - cpu_s, clock.now()
    ticks.append(_ticks(comm))
    after = _sums(comm, model)
    parts = comm.gather((times, cpu_s))
    comm.Free()
    if parts is None or before is None or after is None:
        return account, None
    every, cpu = zip(*parts, strict=True)
    ends = (start, computed, end)
    course = _Course(model, arrangement, before, after, *ends, list(every), sum(cpu), ticks)
    return account, course


def _sums(comm: MPI.Intracomm, model: Model) -> Sums | None:
    parts = comm.gather(checks.of_block(model))
    return None if parts is None else checks.together(parts)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _ticks(comm: MPI.Intracomm) -> str:
    """The lines of cores in /proc/stat, on the first rank: what they did is between two of them."""
    if comm.rank != 0:
        return ""
    with contextlib.suppress(OSError), Path("/proc/stat").open(encoding="ascii") as file:
        return "".join(itertools.takewhile(lambda line: line.startswith("cpu"), file))
    return ""


def _report(
    plan: Plan, course: _Course, account: Account, synced: bool, core_share: float | None
) -> dict[str, Any]:
    slowest: dict[int, float] = {}
    for rank in account.ranks:
        for one in rank.dumps:
            if rank.role == "compute":
                slowest[one.step] = max(one.blocked_s, slowest.get(one.step, 0.0))
    domain = course.model.domain
    return {
        HPCIO_REPORT: VERSION,
        "host": socket.gethostname(),
        "boot": boot(),
        "mpi": MPI.Get_library_version().split("\0")[0].split(",")[0],
        "plan": asdict(plan),
        "domain": asdict(domain),
        "model_step_s": course.model.step_s,
        "arrangement": [course.arrangement.across, course.arrangement.along],
        "ranks": MPI.COMM_WORLD.size,
        "computing": course.arrangement.ranks,
        "start": list(course.start),
        "computed": list(course.computed),
        "end": list(course.end),
        "dumps": plan.dumps,
        "synced": synced,
        "core_share": core_share,
        "dump_bytes": domain.dump_bytes(len(plan.variables)),
        "step_s": loop.spread([s for times in course.times for s in times.step_s]),
        "dump_s": loop.spread([s for times in course.times for s in times.dump_s]),
        "blocked_s": loop.spread(account.blocked_s),
        "blocked_s_slowest": loop.spread(list(slowest.values())),
        "cpu_s_computing": course.cpu_s,
        "cpu_s_writing": account.cpu_s("writer"),
        "checks": {"before": asdict(course.before), "after": asdict(course.after)},
        "ticks": course.ticks,
        "account": account.as_json(),
    }


def _main() -> None:
    task = json.loads(sys.argv[1])
    end_with(task["launcher"])
    plan = Plan(**{**task["plan"], "variables": tuple(task["plan"]["variables"])})
    if (groups := task.get("slow_cores")) is not None:
        # Before the start: writers are in the group of the rank that starts them.
        slow_cores.join(groups, MPI.COMM_WORLD.rank)
    try:
        session = hpcio.start(MPI.COMM_WORLD, hpcio.Config.model_validate(task["config"]))
    except InputError as error:  # On all ranks alike.
        if MPI.COMM_WORLD.rank == 0:
            sys.stdout.write(json.dumps({HPCIO_REFUSED: str(error)}) + "\n")
        return
    if session.is_writer:
        _TolerantSession(session).close()
        return
    account, course = _compute(session, plan)
    if course is not None:
        share = task.get("core_share")
        report = _report(plan, course, account, session.config.sync, share)
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
