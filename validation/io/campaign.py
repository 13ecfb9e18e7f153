"""Measures our own runs: each approach, size and frequency of output on emulated nodes.

    python -m validation.io.campaign --out studies/io-approaches/own-runs.jsonl

Two nodes of four ranks, and of three, each rank with a slow core of its own (`wattio hpcio run
--core-share`).
Repetition follows repetition, each in a random order of its own, so that slow changes of the
machine do not look like one of an approach, and a campaign that is out of time has whole
repetitions. Dumps go to memory and are compressed, so that a writer is as fast as its core.
`own.split` says which of the runs are kept out of the calibration.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattio.miniapp.domain import SIZES

NODES, CORES = 2, 4
CORE_SHARE = "20 %"
COMPRESSION = "gzip:1"
APPROACHES = ("tp", "dc:1", "dc:2", "dn:1")
EVERYS = (1, 2, 4, 8)
FEWER_CORES, FEWER_EVERYS = 3, (2, 8)
"""Another number of ranks that write, and how often: as many frequencies as a line needs."""
STEPS = {"tiny": 48, "small": 16}
DUMP_BYTES = {size: SIZES[size].dump_bytes() for size in STEPS}
BUFFERED = 1.5
"""Dumps that a buffer holds: with room for many, a short run would never wait for it."""

PROFILES = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 3), (2, 4))
"""Nodes and ranks of each, for runs without output: T_base and both speedups."""

PROFILE_STEPS = {"tiny": 32, "small": 6}

_MEMORY = Path("/dev") / "shm"
_TIMEOUT_S = 300.0
_DROPPED = ("dumps_folder", "raw", "arrangement", "state_fingerprint", "mass_change")


@dataclass(frozen=True)
class Planned:
    """One configuration."""

    approach: str
    nodes: int
    cores: int
    size: str
    steps: int
    every: int

    @property
    def buffer_bytes(self) -> int:
        """Of each node that holds dumps on their way."""
        writing = NODES // 2 if self.approach.startswith("dn") else NODES
        return int(BUFFERED * DUMP_BYTES[self.size] / writing)

    @property
    def facts(self) -> dict[str, object]:
        """Where dumps went, and how; results of older versions do not tell any of it."""
        return {
            "dumps_in": "memory" if _MEMORY.is_dir() else "a temporary folder",
            "compression": COMPRESSION,
            "buffer_bytes": self.buffer_bytes,
        }

    def arguments(self, out: Path) -> list[str]:
        """Of `wattio`."""
        options = {
            "--out": out,
            "--approach": self.approach,
            "--ranks": self.nodes * self.cores,
            "--ranks-per-node": self.cores,
            "--core-share": CORE_SHARE,
            "--size": self.size,
            "--steps": self.steps,
            "--output-every": self.every,
            "--buffer": f"{self.buffer_bytes} B",
            "--compression": COMPRESSION,
        }
        words = [str(word) for pair in options.items() for word in pair]
        return ["hpcio", "run", *words, "--no-sync", "--json"]

    def __str__(self) -> str:
        """In a line of progress."""
        return f"{self.approach} {self.nodes}x{self.cores} {self.size} every {self.every}"


def plan() -> list[Planned]:
    """Each configuration once: those with output, and those without."""
    found = [
        Planned(approach, NODES, cores, size, steps, every)
        for size, steps in STEPS.items()
        for approach in APPROACHES
        for cores, everys in ((CORES, EVERYS), (FEWER_CORES, FEWER_EVERYS))
        for every in everys
    ]
    return found + [
        Planned("tp", nodes, cores, size, steps, 0)
        for size, steps in PROFILE_STEPS.items()
        for nodes, cores in PROFILES
    ]


def order(repetitions: int, seed: int) -> Iterator[Planned]:
    """All of them, repetition by repetition, each in a random order of its own."""
    drawn = random.Random(seed)  # noqa: S311 (an order, no secret)
    for _ in range(repetitions):
        yield from drawn.sample(plan(), len(plan()))


def measure(one: Planned) -> str | None:
    """What a run tells, in one line; None where it failed, which is told."""
    place = _MEMORY if _MEMORY.is_dir() else None
    # Ranks of a run that was given up may still write.
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "wattio.cli", *one.arguments(Path(folder) / "run")]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            sys.stderr.write(f"{one}: takes more than {_TIMEOUT_S:g} s\n")
            return None
    if done.returncode:
        sys.stderr.write(f"{one}: {done.stderr.strip()}\n")
        return None
    told = json.loads(done.stdout)
    kept = {name: told[name] for name in told if name not in _DROPPED}
    return json.dumps(kept | {"campaign": one.facts})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure until all is done or time is up; exit code 1 where a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="a new file; a line for each run")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=30.0, help="start no run after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    given = parser.parse_args(arguments)
    runs = list(order(given.repetitions, given.seed))
    begun, failed = time.monotonic(), 0
    with given.out.open("x", encoding="utf-8") as file:
        for number, one in enumerate(runs, start=1):
            if time.monotonic() - begun > 60 * given.minutes:
                sys.stdout.write(f"time is up: {len(runs) - number + 1} runs are left out\n")
                break
            text = measure(one)
            if text is None:
                failed += 1
                continue
            file.write(text + "\n")
            file.flush()
            load = os.getloadavg()[0]
            took = json.loads(text)["wall_s"]
            sys.stdout.write(f"{number} of {len(runs)}: {one}: {took:.2f} s, load {load:.1f}\n")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
