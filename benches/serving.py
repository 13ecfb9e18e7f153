"""Requests over NBD: processor time of `wattio-target` for each, against block servers with a file.

All servers are up at once, each on a disk of its own; they take turns at each load, round by round.
The peer of a load is the one that takes the least for it. Where `wattio-target` is not built, or a
program is missing, there are no lines, and that is said.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from timing import BenchError, Goal, Line, Rate, Timed
from wattio.clock import now
from wattio.errors import WattioError
from wattio.systems.nbd import Options, Storage
from wattio.workloads import fio
from wattio.workloads.workload import Context, Place

ROOT = Path(__file__).parents[1]
OURS = "wattio-target"
SIZE = "128 MiB"
PEERS: Mapping[str, dict[str, Any]] = {
    # One thread wakes no other: less processor time than the default of 16.
    "nbdkit": {"server": "nbdkit", "settings": {"threads": 1, "fadvise": "random"}},
    "qemu-nbd": {"server": "qemu-nbd", "settings": {"cache": "none", "aio": "io_uring"}},
    "qemu-storage-daemon": {
        "server": "qemu-storage-daemon",
        "settings": {"cache.direct": False, "aio": "io_uring"},
    },
    "nbd-server": {"server": "nbd-server", "settings": {"max_threads": 1}},
}
# Requests for each second of processor time, as a ratio to the best peer's: for a request no more
# time than that takes, though ours has checksums and a log; aimed at are 0.67 of it.
GOAL = Goal("ratio", 1.0, 1 / 0.67)
LOADS: Mapping[str, dict[str, Any]] = {
    "depth-1": {},
    "rate-5000": {"iodepth": 32, "options": {"rate_iops": 5000, "rate_process": "poisson"}},
    "saturation": {"iodepth": 32},
}


def binary() -> str | None:
    """The target, installed or built for speed; None where it is neither."""
    built = ROOT / "target" / "release" / OURS
    return shutil.which(OURS) or (str(built) if built.is_file() else None)


def lines(
    rounds: int = 3,
    span_s: float = 1.5,
    ours: dict[str, Any] | None = None,
    peers: Mapping[str, dict[str, Any]] = PEERS,
) -> Iterator[Line]:
    """Run the benchmark; `ours` are options of another system in the target's place."""
    program = binary()
    if ours is None and program is None:
        return missing(f"{OURS} is neither installed nor in target/release")
    own = ours or {"server": OURS, "program": program}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wattio-bench-")))
        try:
            up = {
                name: stack.enter_context(serving(options, folder / name))
                for name, options in {**peers, OURS: own}.items()
            }
            taken = measured(up, folder, rounds, span_s)
        except WattioError as error:
            raise BenchError(f"serving: {error}") from error
    for load, by_server in taken.items():
        yield line(load, by_server)


def missing(what: str) -> None:
    """Say why there are no lines."""
    sys.stderr.write(f"bench: serving is left out: {what}\n")


@contextlib.contextmanager
def serving(options: dict[str, Any], scratch: Path) -> Iterator[tuple[Storage, Place]]:
    """A server that is up, and where its client works."""
    storage = Storage(Options.model_validate({"size": SIZE, **options}), scratch)
    try:
        storage.probe()
        storage.deploy()
        storage.start()
        yield storage, storage.mount(1)[0]
    finally:
        storage.clean()


def measured(
    up: Mapping[str, tuple[Storage, Place]], folder: Path, rounds: int, span_s: float
) -> dict[str, dict[str, list[Timed[int]]]]:
    """Requests and processor time by load and server, one for each round."""
    jobs = [job(name, span_s, more) for name, more in LOADS.items()]
    work = fio.Work(fio.Options.model_validate({"jobs": jobs}), folder)
    work.probe()
    for name, (_, place) in up.items():
        work.prepare(context(place, folder, f"fill-{name}"))
        # Servers with caches of their own fill them once.
        work.run("saturation", context(place, folder, f"warm-{name}"))
    taken: dict[str, dict[str, list[Timed[int]]]] = {
        load: {name: [] for name in up} for load in LOADS
    }
    for number in range(rounds):
        for load in LOADS:
            for name, (storage, place) in up.items():
                where = context(place, folder, f"{load}-{name}-{number}")
                began, before_s = now(), storage.processor_time_s()
                work.run(load, where)
                cpu_s = storage.processor_time_s() - before_s
                wall_s = (now().monotonic_ns - began.monotonic_ns) / 1e9
                done = sum(one.operations or 0 for one in fio.results(where.raw))
                if done == 0:
                    raise BenchError(f"serving: {name} answered nothing at {load}")
                taken[load][name].append(Timed(done, cpu_s, wall_s))
    return taken


def job(name: str, span_s: float, more: dict[str, Any]) -> dict[str, Any]:
    """A job of fio: 4 KiB at random, read."""
    head = {"name": name, "rw": "randread", "bs": "4 KiB", "size": SIZE, "ioengine": "nbd"}
    return {**head, "runtime": f"{span_s:g} s", "time_based": True, **more}


def context(place: Place, folder: Path, name: str) -> Context:
    """Where a step leaves its output."""
    raw = folder / "raw" / name
    raw.mkdir(parents=True)
    return Context((place,), raw)


def line(load: str, taken: Mapping[str, list[Timed[int]]]) -> Line:
    """Ours against the peer that takes the least for a request."""
    each_us = {
        name: median(1e6 * one.cpu_s / one.result for one in rounds)
        for name, rounds in taken.items()
    }
    best = min((name for name in taken if name != OURS), key=lambda name: each_us[name])
    told = ", ".join(f"{name} {value:.1f}" for name, value in each_us.items())
    return Line(
        load,
        "requests",
        best,
        Rate.of(taken[best], float),
        Rate.of(taken[OURS], float),
        GOAL,
        f"4 KiB read at random over NBD; µs of the server's processor time for each: {told}",
    )
