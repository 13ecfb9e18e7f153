"""Dumps of a simulation: how long it is blocked, and what a writer costs that waits.

Blocked time is wall time, of two ranks: one that computes and one that writes, against a plain copy
of the same memory, and against both writing their own: to the file system of temporary files, as a
simulation would, without waiting for its disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from timing import BenchError, Goal, Line, Rate
from wattio.hpcio import parse_approach
from wattio.workloads import mpi_launch

DUMP_MIB = 64
COPY_RATIO_MAX = 1.2
BLOCKED_S_MAX = 1e-4
LESS_THAN_TP = 5.0
IDLE_SHARE_MAX = 5e-4
SETTLE_S = 0.5
LEAST_S = 1e-6
"""Taken for a writer that used no processor time at all."""

SHARED_MEMORY = Path("/dev") / "shm"
MEMORY = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None

_PROGRAM = Path(__file__).with_name("dumping_ranks.py")
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "^ofi",
}


def ranks(count: int, **task: Any) -> dict[str, list[float]]:  # noqa: ANN401 (JSON)
    """Run the ranks; what the first one prints. Raises BenchError."""
    launcher = mpi_launch.launcher(mpi_launch.RankOptions())
    if launcher is None:
        raise BenchError("dumps: there is no mpirun")
    line = [launcher.path, "-np", str(count), "--oversubscribe", "--bind-to", "none"]
    done = subprocess.run(
        [*line, sys.executable, "-m", "mpi4py", str(_PROGRAM), json.dumps(task)],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"dumps: {done.stderr[-500:]}")
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def config(approach: str, output: Path, **more: object) -> dict[str, object]:
    """A configuration without checksums, which plain h5py has not, either."""
    return {"output": str(output), "checksum": False, **parse_approach(approach), **more}


def rate(seconds: list[float], amount: float) -> Rate:
    """Amounts a second of wall time."""
    found = tuple(amount / one for one in seconds)
    return Rate(found, found)


def idle_rate(found: list[dict[str, list[float]]]) -> Rate:
    """Seconds of waiting for each second of processor time."""
    shares = tuple(one["wall"][0] / max(one["cpu"][0], LEAST_S) for one in found)
    return Rate(shares, tuple(1.0 for _ in shares))


def lines(dumps: int = 21, rounds: int = 3, span_s: float = 3.0) -> Iterator[Line]:
    """Run the benchmark. Raises BenchError."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        room = Path(name)
        buffer = f"{3 * (DUMP_MIB + 1)} MiB"
        cores = config("dc:1", room / "dc", ranks_per_node=2, buffer=buffer)
        dc = ranks(2, what="dumping", config=cores, dumps=dumps)
    with tempfile.TemporaryDirectory() as name:
        tp = ranks(2, what="dumping", config=config("tp", Path(name) / "tp"), dumps=dumps)
    yield Line(
        "dump-copy",
        "MiB",
        "memcpy",
        rate(dc["memcpy"], DUMP_MIB),
        rate(dc["copy"], DUMP_MIB),
        Goal("ratio", 1 / COPY_RATIO_MAX),
        f"blocked time of a dump of {DUMP_MIB} MiB that is copied to a dedicated core: at most"
        f" {COPY_RATIO_MAX:g} times a copy of the same memory",
    )
    yield Line(
        "dump-place",
        "dumps",
        "copied",
        rate(dc["copy"], 1),
        rate(dc["place"], 1),
        Goal("ours", 1 / BLOCKED_S_MAX),
        f"blocked time of a dump that is filled in place: under {1e3 * BLOCKED_S_MAX:g} ms",
    )
    yield Line(
        "dump-tp",
        "dumps",
        "each rank writes",
        rate(tp["place"], 1),
        rate(dc["place"], 1),
        Goal("ratio", LESS_THAN_TP),
        f"the same against time partitioning at two ranks: {LESS_THAN_TP:g} times less blocked",
    )
    yield Line(
        "dump-tp-copy",
        "dumps",
        "each rank writes",
        rate(tp["place"], 1),
        rate(dc["copy"], 1),
        None,
        "a dump that is copied against time partitioning, whose files are copies to memory, too,"
        " as long as nobody waits for the disk",
    )
    yield from idle_lines(rounds, span_s)


def idle_lines(rounds: int, span_s: float) -> Iterator[Line]:
    """Writers that wait, against a receive that polls."""
    found: dict[str, list[dict[str, list[float]]]] = {"": [], "dc:1": [], "dn:1": []}
    for _ in range(rounds):
        for approach, taken in found.items():
            with tempfile.TemporaryDirectory() as name:
                per_node = 1 if approach == "dn:1" else 2
                whole = config(approach, Path(name), ranks_per_node=per_node) if approach else None
                task = {"config": whole, "span_s": span_s, "settle_s": SETTLE_S}
                taken.append(ranks(2, what="idle", **task))
    for approach, goal in (("dc:1", Goal("ours", 1 / IDLE_SHARE_MAX)), ("dn:1", None)):
        yield Line(
            f"idle-{approach[:2]}",
            "waited s",
            "MPI_Recv",
            idle_rate(found[""]),
            idle_rate(found[approach]),
            goal,
            f"seconds that an idle writer of {approach} waits for each one of processor time"
            + (f": under {IDLE_SHARE_MAX:.2%} of a core" if goal else ", woken by a socket"),
        )
