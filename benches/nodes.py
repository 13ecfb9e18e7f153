"""A campaign on nine nodes over ssh: an iteration of it, beside the bare commands over ssh.

The nodes are namespaces of this machine with an sshd each; the work is a command of some seconds on
all of them at once. Both begin by dropping the page caches there. Needs root, sshd and iproute2.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from timing import BenchError, Goal, Line, Rate

if TYPE_CHECKING:
    from hosts.cluster import Cluster

NODES = 9
WORK_S = 2.0
RATIO_LEAST = 1 / 1.3

_TESTS = Path(__file__).parents[1] / "tests"
_DROP = "sync; echo 3 > /proc/sys/vm/drop_caches"
_STUDY = """\
[study]
name = "bench"
kind = "measurement"
repetitions = {rounds}
clients = [{nodes}]
idle_before = "0 s"
idle_after = "0 s"
settle = "0 s"
repeat_invalid = 0

[hosts]
clients = "{mark}-[1-{nodes}]"
ssh = ["-F", "{config}"]

[[system]]
name = "disk"
kind = "mounted"
options = {{ path = "{folder}", shared = false }}

[[workload]]
name = "work"
kind = "command"
options = {{ run = ["sleep", "{work_s}"], guess = "{work_s} s" }}

[[meter]]
name = "estimate:assumed"
covers = ["nodes"]
period = "0.1 s"
"""


def lines(rounds: int = 5) -> Iterator[Line]:
    """One line: iterations in a second of wall time, bare and by a study. Raises BenchError."""
    if os.geteuid() != 0:
        sys.stderr.write("bench: nodes: needs root, and is left out\n")
        return
    sys.path.insert(0, str(_TESTS))
    from hosts.cluster import cluster

    with tempfile.TemporaryDirectory() as place, cluster(Path(place) / "nodes", NODES) as nodes:
        bare = [_bare(nodes) for _ in range(rounds)]
        ours = _studied(nodes, Path(place), rounds + 1)
    peer, own = (
        Rate(tuple(1 / s for s in times), tuple(1 / s for s in times)) for times in (bare, ours)
    )
    note = f"{median(ours):.2f} s an iteration, {median(bare):.2f} s bare; wall time"
    goal = Goal("ratio", RATIO_LEAST)
    yield Line("nodes", "iterations", "ssh", peer, own, goal, note)


def _bare(nodes: Cluster) -> float:
    """How long the commands take by themselves, on all nodes at once."""
    began_s = time.perf_counter()
    for command in (_DROP, f"sleep {WORK_S}"):
        running = [
            subprocess.Popen(("ssh", "-F", str(nodes.config), "-o", "BatchMode=yes", name, command))
            for name in nodes.names
        ]
        if any(one.wait() for one in running):
            raise BenchError(f"nodes: {command} failed on a node")
    return time.perf_counter() - began_s


def _studied(nodes: Cluster, place: Path, rounds: int) -> list[float]:
    """How long iterations of a study take, each from its start to that of the next one."""
    from wattio.kinds.measurement.folder import MeasurementFolder

    (place / "disk").mkdir()
    study = place / "study.toml"
    values = {"rounds": rounds, "nodes": NODES, "mark": nodes.mark, "config": nodes.config}
    study.write_text(_STUDY.format(**values, folder=place / "disk", work_s=WORK_S))
    words = [sys.executable, "-m", "wattio.cli", "run", str(study), "--no-report"]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"nodes: the study failed: {done.stderr[-500:]}")
    (found,) = (place / "results/bench").iterdir()
    folder = MeasurementFolder(found)
    records = [folder.record(item.identity) for item in folder.iterations()]
    starts = sorted(record.start.monotonic_ns for record in records)
    return [(after - before) / 1e9 for before, after in itertools.pairwise(starts)]
