"""Reading a latency log of fio: `wattio import fio-log` against awk's sums over the same file.

Ours gives exact percentiles for each direction; awk only adds up the latencies of each. Both are
programs of their own, timed with their start.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from timing import BenchError, Goal, Line, Rate, Timed

ENTRIES = 3_000_000
ENTRIES_PER_S = 10_000
CHUNK = 100_000
SUMS = "{ count[$3]++; sum[$3] += $2 } END { for (d in sum) print d, count[d], sum[d] / count[d] }"
WALL_GOAL_S = 2.0
SIZE_MIB = 100


def write_log(path: Path, entries: int) -> None:
    """A synthetic log: 70 % reads, log-normal latencies, with offsets."""
    random = np.random.default_rng(1)
    with path.open("w", encoding="ascii") as file:
        for start in range(0, entries, CHUNK):
            count = min(CHUNK, entries - start)
            columns = (
                (start + np.arange(count)) * 1000 // ENTRIES_PER_S,
                random.lognormal(12, 0.6, count).astype(np.int64),
                (random.random(count) > 0.7).astype(np.int64),
                np.full(count, 4096),
                random.integers(0, 1 << 24, count) * 4096,
            )
            rows = zip(*(one.tolist() for one in columns), strict=True)
            file.writelines(f"{t}, {v}, {d}, {b}, {o}\n" for t, v, d, b, o in rows)


def lines(rounds: int = 3, entries: int = ENTRIES) -> Iterator[Line]:
    """Run the benchmark. Raises BenchError where the two find different things."""
    with TemporaryDirectory(prefix="wattio-bench-") as folder:
        path = Path(folder) / "bench_lat.1.log"
        write_log(path, entries)
        size_mib = path.stat().st_size / (1 << 20)
        awk = ("awk", "-F", ",", SUMS, str(path))
        ours = (sys.executable, "-m", "wattio.cli", "import", "fio-log", str(path), "--json")
        taken: dict[str, list[Timed[bytes]]] = {"awk": [], "wattio": []}
        for _ in range(rounds):
            taken["awk"].append(timed(awk))
            taken["wattio"].append(timed(ours))
    check(taken["awk"][0].result, taken["wattio"][0].result)
    rates = {name: Rate.of(all_of, lambda _: float(entries)) for name, all_of in taken.items()}
    wall_s = min(one.wall_s for one in taken["wattio"]) * SIZE_MIB / size_mib
    yield Line(
        "import",
        "entries",
        "awk, sums alone",
        rates["awk"],
        rates["wattio"],
        Goal("ratio", 0.2),
        f"{size_mib:.0f} MiB of fio's latency log, exact percentiles for each direction; start"
        f" counted; at best {wall_s:.2f} s of wall time for {SIZE_MIB} MiB, {WALL_GOAL_S:g} s"
        " wanted",
    )


def timed(command: Sequence[str]) -> Timed[bytes]:
    """Run a program; its processor time is what its children's account grew by."""
    before, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    wall_s = time.perf_counter() - wall_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise BenchError(f"import: {command[0]} failed: {done.stderr.decode(errors='replace')}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(done.stdout, cpu_s, wall_s)


def check(awk: bytes, ours: bytes) -> None:
    """Both must have counted the same entries and the same mean latencies."""
    told = {}
    for line in awk.decode().splitlines():
        direction, how_many, mean = line.split()
        told["read" if direction == "0" else "write"] = (int(how_many), float(mean))
    for one in json.loads(ours)["operations"]:
        counted, expected_ns = told[one["operation"]]
        mean_ns = one["latency_us"]["mean"] * 1e3
        if one["operations"] != counted or abs(mean_ns / expected_ns - 1) > 1e-3:
            raise BenchError("import: wattio and awk read different things")
