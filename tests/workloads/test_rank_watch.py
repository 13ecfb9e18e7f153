"""Launchers that go on without their ranks: they are killed, and the failure says so."""

from __future__ import annotations

import shutil
import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hpcio.waiting import HANGS_S, runs, until
from wattio.errors import WorkloadFailed
from wattio.workloads import hpcio, mpi_launch, processes, rank_watch
from wattio.workloads.hpcio import Options
from wattio.workloads.mpi_launch import RankOptions
from wattio.workloads.processes import Program
from wattio.workloads.rank_watch import RankWatch
from wattio.workloads.workload import Context, Place

RANK = (sys.executable, "-c", "import sys; sys.stdin.read()")
NEVER_S = 1e6
"""A patience that no test outlasts."""

# Its ranks are asleep until they have been looked for. They all end then, or only the first.
LAUNCHER = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ranks = [subprocess.Popen(sys.argv[4:], stdin=subprocess.PIPE) for _ in range(int(sys.argv[2]))]
print(*[rank.pid for rank in ranks], flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
for rank in ranks if sys.argv[3] != "first" else ranks[:1]:
    rank.stdin.close()
    if sys.argv[3] == "collected":
        rank.wait()
print("rank 1: no space left", file=sys.stderr, flush=True)
time.sleep(600)
"""


class Telling(RankWatch):
    """Makes a file when it has found so many ranks, or after it has looked for so long."""

    looks = 0
    troubled = False
    """Whether anything was wrong before that."""

    def until(self, ranks: int, looks: int, looked: Path) -> Telling:
        self.enough, self.looked = (ranks, looks), looked
        return self

    def __call__(self, launcher: int) -> str | None:
        trouble = super().__call__(launcher)
        self.looks += 1
        self.troubled |= self._trouble is not None and not self.looked.exists()
        if len(self._handles) >= self.enough[0] or self.looks >= self.enough[1]:
            self.looked.touch()
        return trouble


def launcher(place: Path, how: str, watch: Telling) -> Program:
    line = (sys.executable, "-c", LAUNCHER, str(watch.looked), "3", how, *RANK)
    return Program(line, place / "out", place / "err", watch=watch)


@pytest.mark.parametrize(
    ("how", "told", "patience"),
    [
        # Ranks that end one after another are not told of before the last one has.
        ("collected", "kept running without any rank", (NEVER_S, 0.5)),
        ("left", "kept running without any rank", (NEVER_S, 0.5)),
        ("first", "did not react to the end of a rank", (0.5, NEVER_S)),
    ],
)
def test_a_launcher_that_outlives_its_ranks_is_killed(
    tmp_path: Path, how: str, told: str, patience: tuple[float, float]
) -> None:
    watch = Telling(RANK, 3, *patience).until(3, 10**9, tmp_path / "looked")
    with pytest.raises(WorkloadFailed, match=rf"{told} for \d+ s; it was killed: rank 1: no space"):
        processes.run_all([launcher(tmp_path, how, watch)], threading.Event())
    watch.close()
    ranks = [int(word) for word in (tmp_path / "out").read_text().split()]
    assert len(ranks) == 3
    until(lambda: not any(runs(rank) for rank in ranks))


def test_another_trouble_gets_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that nobody has looked after yet, for almost too long, and then the end of all."""
    now_s = 0.0
    monkeypatch.setattr(rank_watch, "time", SimpleNamespace(monotonic=lambda: now_s))
    watch = RankWatch(RANK, 2, unnoticed_s=4.0, alone_s=8.0)
    course = [(rank_watch._UNNOTICED, 4), (rank_watch._ALONE, 8), (None, 1)]
    for trouble, lasts in course:
        monkeypatch.setattr(watch, "_look", lambda _, found=trouble: found)
        for _ in range(lasts):
            assert watch(1) is None
            now_s += 1.0
    monkeypatch.setattr(watch, "_look", lambda _: rank_watch._UNNOTICED)
    assert watch(1) is None
    now_s += 4.0
    assert watch(1) == "did not react to the end of a rank for 4 s; it was killed"


def test_ranks_that_are_not_all_there_yet_are_no_trouble(tmp_path: Path) -> None:
    """Nor is a launcher whose ranks nobody finds."""
    for program in (RANK, ("no", "rank")):
        looked = tmp_path / f"looked-{len(program)}"
        watch = Telling(program, 4, NEVER_S, NEVER_S).until(1, 20, looked)
        code = (
            "import os, subprocess, sys, time\n"
            "rank = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)\n"
            "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
            "rank.communicate()\n"
        )
        line = (sys.executable, "-c", code, str(looked), *RANK)
        one = Program(line, tmp_path / "out", tmp_path / "err", watch=watch)
        assert processes.run_all([one], threading.Event())[0].code == 0
        assert len(watch._handles) == (program == RANK)
        assert not watch.troubled
        watch.close()
        assert not watch._handles


@pytest.fixture
def deaf(tmp_path: Path) -> RankOptions:
    """A launcher that sleeps on after the real one has ended."""
    found = mpi_launch.launcher(RankOptions())
    if found is None or shutil.which("sh") is None:
        pytest.skip("mpirun is not installed")
    script = tmp_path / "mpirun"
    script.write_text(
        f'#!/bin/sh\n[ "$1" != --version ] || exec {found.path} --version\n'
        f'trap "" TERM\n{found.path} "$@"\nsleep {HANGS_S}\n'
    )
    script.chmod(0o755)
    return RankOptions(mpirun=str(script))


@pytest.mark.parametrize("buffer", ["256 MiB", "64 KiB"])
def test_a_run_ends_with_a_launcher_that_does_not(
    tmp_path: Path, deaf: RankOptions, buffer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its ranks have ended well or by an error, whose reason is what is told."""
    # Ranks of a run that is over soon have to be seen at one of the looks.
    monkeypatch.setattr(rank_watch, "_LOOK_S", 0.0)
    monkeypatch.setattr(mpi_launch, "RankWatch", partial(RankWatch, alone_s=0.5))
    (tmp_path / "raw").mkdir()
    context = Context((Place(tmp_path),), tmp_path / "raw", threading.Event())
    options = Options(
        approach="dc:1",
        ranks=2,
        ranks_per_node=2,
        size="tiny",
        steps=2,
        output_every=1,
        buffer=buffer,  # type: ignore[arg-type]
        launcher=deaf,
    )
    told = "make buffer larger" if buffer == "64 KiB" else "mpirun kept running without any rank"
    with pytest.raises(WorkloadFailed, match=told):
        hpcio.launch(options, tmp_path / "dumps", context)
