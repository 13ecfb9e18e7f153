"""Sampling three power sensors 1,000 times a second: the recorder against a bare loop.

The bare loop is what people write: sleep until it is time, read three files, make numbers of them.
It keeps nothing. The recorder stamps each reading by two clocks, checks it, and writes it down.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from timing import BenchError, Goal, Line, Rate, Timed
from wattio.recording import Recorder, Source

METERS = 3
RATE_HZ = 1000.0
CPU_RATIO_MAX = 1.5
NUMBER = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
"""A number of sysfs that every machine has; to read a file elsewhere costs something else."""
SHARED_MEMORY = Path("/dev") / "shm"
MEMORY = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None

BARE = """
import gc, os, sys, time
gc.disable()
period_ns, rounds = int(sys.argv[1]), int(sys.argv[2])
files = [os.open(name, os.O_RDONLY) for name in sys.argv[3:]]
due_ns = time.monotonic_ns()
for _ in range(rounds):
    due_ns += period_ns
    left_ns = due_ns - time.monotonic_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)
    for file in files:
        int(os.pread(file, 64, 0))
"""


def sensors(root: Path) -> list[Path]:
    """Files shaped like sensors of the kernel, that the kernel answers for. Raises BenchError."""
    if not NUMBER.exists():
        raise BenchError(f"recorder: this kernel has no {NUMBER}")
    files = []
    for number in range(METERS):
        chip = root / "sys" / "class" / "hwmon" / f"hwmon{number}"
        chip.mkdir(parents=True)
        (chip / "name").write_text(f"chip{number}\n")
        files.append(chip / "power1_input")
        files[-1].symlink_to(NUMBER)
    return files


def bare(files: list[Path], span_s: float) -> Timed[int]:
    """The bare loop: processor time of so long, without that of its start."""

    def cpu_s(rounds: int) -> float:
        command = [sys.executable, "-c", BARE, f"{1e9 / RATE_HZ:.0f}", str(rounds)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, *map(str, files)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    rounds = round(span_s * RATE_HZ)
    began_s = time.monotonic()
    taken_s = cpu_s(rounds) - cpu_s(0)
    return Timed(rounds * METERS, max(taken_s, 1e-6), time.monotonic() - began_s)


def recorded(root: Path, folder: Path, span_s: float) -> Timed[int]:
    """The recorder: processor time of its process while it samples."""
    labels = [f"chip{number}" for number in range(METERS)]
    sources = [Source(name, f"hwmon:{name}/power1?root={root}", RATE_HZ) for name in labels]
    with Recorder(sources, folder) as recorder:
        recorder.start()
        process = recorder.process_id
        start_ns, before_s = time.monotonic_ns(), cpu_s_of(process)
        time.sleep(span_s)
        end_ns, after_s = time.monotonic_ns(), cpu_s_of(process)
        if not all(recorder.caught_up(label, end_ns, 10.0) for label in labels):
            raise BenchError(f"recorder: fell behind: {recorder.events()[:3]}")
        taken = sum(len(recorder.read(label, start_ns, end_ns)) for label in labels)
    return Timed(taken, after_s - before_s, (end_ns - start_ns) / 1e9)


def cpu_s_of(process: int) -> float:
    """Processor time of all threads of a process, to the nanosecond."""
    files = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def lines(rounds: int = 5, span_s: float = 4.0) -> Iterator[Line]:
    """Run the benchmark. Raises BenchError."""
    ours: list[Timed[int]] = []
    theirs: list[Timed[int]] = []
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        root = Path(name)
        files = sensors(root)
        for number in range(rounds):
            theirs.append(bare(files, span_s))
            ours.append(recorded(root, root / f"recording{number}", span_s))
    due = RATE_HZ * METERS * span_s
    share = min(one.result / due for one in ours)
    if share < 0.5:
        raise BenchError(f"recorder: took {share:.0%} of the readings that were due")
    yield Line(
        "recorder",
        "readings",
        "bare loop in Python",
        Rate.of(theirs, lambda readings: readings),
        Rate.of(ours, lambda readings: readings),
        Goal("ratio", 1 / CPU_RATIO_MAX),
        f"{METERS} sensors at {RATE_HZ:g} Hz: at most {CPU_RATIO_MAX:g} times the processor time "
        f"of a loop that keeps nothing; at least {share:.1%} of the readings were in time",
    )
