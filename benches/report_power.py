"""A report over ten million power samples, against a script that loads them all and draws.

The script is what people write for one figure: it reads the file of samples whole, cuts it into
phases, and draws a curve and box plots. The report reads it piece by piece, and makes every figure
and table of a measurement, as `wattio report` does, with the start of its process.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from timing import BenchError, Goal, Line, Rate, Timed
from wattio.clock import Instant, Span
from wattio.files import document
from wattio.kinds.measurement import plan as planning
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.record import Phase, Record
from wattio.meters import parquet
from wattio.meters.meter import Facts
from wattio.recording import Samples
from wattio.results import runs
from wattio.results.runs import Metrics, Recorded, Verdict

SAMPLES = 10_000_000
RATE_HZ = 1000.0
SECONDS_MAX = 5.0
MEMORY_MAX_MB = 500.0
PHASES = ("write", "read")

STUDY = """\
[study]
name = "bench"
kind = "measurement"
repetitions = 5
clients = [1, 2, 4]
idle_before = "0 s"
idle_after = "0 s"
[[system]]
name = "left"
kind = "local"
options = { path = "/" }
[[system]]
name = "right"
kind = "local"
options = { path = "/" }
[[workload]]
name = "sequential"
kind = "fio"
options = { jobs = [{ name = "write", rw = "write", bs = "4 MiB", size = "1 GiB" }] }
[[meter]]
name = "csv:power.csv"
label = "meter"
covers = ["server"]
"""

SCRIPT = """
import json, sys
import duckdb, matplotlib
matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
columns = duckdb.sql(f"SELECT * FROM read_parquet('{sys.argv[1]}')").fetchnumpy()
time_s, power_w = columns["monotonic_ns"] / 1e9, np.asarray(columns["power_w"])
spans = json.loads(sys.argv[2])
few = len(power_w) // 1000
figure, (over, boxes) = plt.subplots(2, 1)
means = power_w[: few * 1000].reshape(1000, few).mean(axis=1)
over.plot(time_s[: few * 1000 : few], means)
boxes.boxplot([power_w[(time_s >= a) & (time_s <= b)] for a, b in spans], showfliers=False)
figure.savefig(sys.argv[3])
"""

# What `wait4` says of memory counts that of the process which forked, too.
PEAK_MEMORY = """
for line in open("/proc/self/status"):
    if line.startswith("VmHWM:"):
        print(line.split()[1])
"""

REPORT = """
import sys
from pathlib import Path
from wattio.report import make
make(Path(sys.argv[1]))
"""


def write_folder(root: Path, count: int) -> tuple[MeasurementFolder, list[tuple[float, float]]]:
    """A result folder with so many samples of one meter, and the spans of its phases."""
    (root / "study.toml").write_text(STUDY, encoding="utf-8")
    plan = planning.make(document.read(root / "study.toml"))
    folder = MeasurementFolder.create(plan, root, datetime(2027, 1, 15, tzinfo=UTC))
    each_s = count / RATE_HZ / len(plan.iterations)
    facts = {"meter": Facts("csv:power.csv", "a file", 1 / RATE_HZ)}
    spans: list[tuple[float, float]] = []
    store = folder.catalog()
    for number, item in enumerate(plan.iterations):
        start_s = number * each_s
        ends = [start_s + share * each_s for share in (0.02, 0.49, 0.51, 0.98)]
        phases = [Span(PHASES[n], _at(ends[2 * n]), _at(ends[2 * n + 1])) for n in (0, 1)]
        spans += [(ends[0], ends[1]), (ends[2], ends[3])]
        entry = Record(
            *(item.identity, "0001", "fio", 0, _at(start_s), _at(start_s + each_s)),
            *(tuple(Phase(phase.name, phase) for phase in phases), facts),
        )
        folder.raw(item.identity).mkdir()
        entry.write(folder.raw(item.identity))
        rows = [runs.Phase(span.name, span.start[0], span.end[0], *_both(span)) for span in phases]
        head = (item.identity, item.run, 1, item.repetition, 1)
        store.add(
            Recorded(*head, (Verdict("VALID", ""),), {"": _metrics(number)}), rows, "measurement"
        )
    store.close()
    monotonic_ns = (np.arange(count) * (1e9 / RATE_HZ)).astype(np.int64)
    power_w = np.random.default_rng(1).normal(80.0, 3.0, count).round(2)
    absent = np.broadcast_to(np.float64(np.nan), count).copy()
    recorded = Samples(monotonic_ns + _at(0).utc_ns, monotonic_ns, power_w, absent, absent)
    parquet.write(folder.path / "samples" / "0001.parquet", {"meter": recorded})
    return folder, spans


def _at(time_s: float) -> Instant:
    return Instant(1_800_000_000 * 10**9 + round(time_s * 1e9), round(time_s * 1e9))


def _both(span: Span) -> tuple[int, int]:
    return span.start.monotonic_ns, span.end.monotonic_ns


def _metrics(number: int) -> Metrics:
    """About as many as a real iteration has."""
    found: Metrics = {}
    for phase in PHASES:
        own = {"seconds": 100.0, "energy_j": 8e3, "power_w_mean": 80.0, "bytes": 1e9}
        own |= {"throughput_mib_s": 500.0, "mib_per_joule": 6.0, "edp_w1": 8e5, "edp_w2": 8e7}
        own |= {"operations": 1e3, "iops": 10.0, "meter.energy_j": 8e3, "power_w_p50": 80.0}
        own |= {f"latency_us_{name}": 1e3 for name in ("mean", "p50", "p99", "p999", "max")}
        same = ("bytes", "operations")
        found |= {
            f"{phase}.{name}": (value if name in same else value * (1 + number % 7 / 100), "1")
            for name, value in own.items()
        }
    return found


def run(program: str, arguments: list[str]) -> Timed[float]:
    """Run a program of Python: its peak memory in MB, and its times. Raises BenchError."""
    began_s = time.monotonic()
    before_s = _children_s()
    command = [sys.executable, "-c", program + PEAK_MEMORY, *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise BenchError(f"report: a program ended with {ended.returncode}")
    wall_s = time.monotonic() - began_s
    return Timed(int(ended.stdout) * 1024 / 1e6, _children_s() - before_s, wall_s)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def lines(rounds: int = 3, count: int = SAMPLES) -> Iterator[Line]:
    """Run the benchmark. Raises BenchError."""
    ours: list[Timed[float]] = []
    theirs: list[Timed[float]] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        folder, spans = write_folder(root, count)
        samples = str(folder.path / "samples" / "0001.parquet")
        for _ in range(rounds):
            theirs.append(
                run(SCRIPT, [samples, str([list(ends) for ends in spans]), f"{root}/x.svg"])
            )
            ours.append(run(REPORT, [str(folder.path)]))
        figures = len(list((folder.path / "report").glob("*.svg")))
    if figures < 4:
        raise BenchError(f"report: has {figures} figures only")
    most_mb = max(one.result for one in ours)
    if most_mb > MEMORY_MAX_MB:
        raise BenchError(f"report: took {most_mb:.0f} MB; allowed are {MEMORY_MAX_MB:g}")
    yield Line(
        "report",
        "reports",
        "a script that loads every sample",
        Rate.of(theirs, lambda _: 1),
        Rate.of(ours, lambda _: 1),
        Goal("ours", 1 / SECONDS_MAX),
        f"{count / 1e6:g} million samples, {figures} figures: at worst"
        f" {max(one.wall_s for one in ours):.1f} s of wall time (limit {SECONDS_MAX:g}) and"
        f" {most_mb:.0f} MB (limit {MEMORY_MAX_MB:g}); the script draws one figure in"
        f" {max(one.result for one in theirs):.0f} MB",
    )
