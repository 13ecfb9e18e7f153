"""Processes that die and disks that fill up: the job ends, and what was whole stays readable."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattio.hpcio import parse_approach
from wattio.hpcio.assembly import fields
from wattio.hpcio.inspection import inspect

from hpcio.dumping_program import field, process_of
from hpcio.launching import account, comes, command, environment, launch
from hpcio.waiting import HANGS_S, runs, until

PER_NODE = {"tp": None, "dc:1": 4, "dn:1": 2}


def task(output: Path, approach: str, steps: list[int], **more: object) -> dict[str, Any]:
    config = {
        "output": str(output),
        **parse_approach(approach),
        "ranks_per_node": PER_NODE[approach],
        "compression": "none",
        "grace": "2 s",
    }
    return {"config": config, "steps": steps, **more}


def children(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(word) for path in found for word in path.read_text().split()]


@pytest.mark.parametrize(
    ("approach", "killed"),
    [
        ("tp", 1),
        pytest.param("dc:1", 1, marks=pytest.mark.slow),
        ("dc:1", 3),
        pytest.param("dn:1", 1, marks=pytest.mark.slow),
        ("dn:1", 2),
    ],
)
def test_a_death_ends_the_job(tmp_path: Path, approach: str, killed: int) -> None:
    output = tmp_path / "dumps"
    done = launch(4, task(output, approach, [0, 1], killed=killed))
    assert done.returncode != 0
    first = inspect(output)[0]
    assert first.whole
    assert not first.problems
    assert np.array_equal(fields(output, 0)["theta"], field(0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("approach", "killed", "others"),
    [("dc:1", 1, {0, 2, 3}), ("dc:1", 3, {0, 1, 2}), ("dn:1", 1, {3}), ("dn:1", 3, {1})],
)
def test_a_death_is_noticed_without_the_launcher(
    tmp_path: Path, approach: str, killed: int, others: set[int]
) -> None:
    """One that is stopped neither ends ranks nor answers those that want to end all."""
    output = tmp_path / "dumps"
    line = command(4, task(output, approach, [0], killed="by the test"))
    with subprocess.Popen(
        line, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as job:
        try:
            comes(job, (output / "dump-00000000").is_dir)
            ranks = [int(process_of(tmp_path, rank).read_text()) for rank in range(4)]
            job.send_signal(signal.SIGSTOP)
            os.kill(ranks[killed], signal.SIGKILL)
            until(lambda: not any(runs(ranks[rank]) for rank in others))
            job.send_signal(signal.SIGCONT)
            _, told = job.communicate(timeout=HANGS_S)
        finally:
            job.kill()
    assert job.returncode != 0
    assert "has died; all ranks are ended" in told
    assert {f"wattio-io: rank {rank}:" in told for rank in others} == {True}


@pytest.mark.parametrize(
    "approach",
    [
        pytest.param("tp", marks=pytest.mark.slow),
        "dc:1",
        pytest.param("dn:1", marks=pytest.mark.slow),
    ],
)
def test_a_dead_launcher_ends_all_ranks(tmp_path: Path, approach: str) -> None:
    """In a long step, in which no rank would miss another."""
    output = tmp_path / "dumps"
    # No rank has this number: all of them wait, as for one that is going to die.
    line = command(4, task(output, approach, [0], killed=-2))
    with subprocess.Popen(
        line, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as job:
        try:
            comes(job, (output / "dump-00000000").is_dir)
            ranks = children(job.pid)
        finally:
            job.kill()
    assert len(ranks) == 4
    until(lambda: not any(runs(rank) for rank in ranks))
    assert np.array_equal(fields(output, 0)["theta"], field(0))


@pytest.mark.parametrize("approach", ["tp", "dc:1", pytest.param("dn:1", marks=pytest.mark.slow)])
def test_a_full_disk_ends_with_its_reason(tmp_path: Path, approach: str) -> None:
    """A limit on the size of files is a disk that is full, without root."""
    output = tmp_path / "dumps"
    done = launch(4, task(output, approach, [0, 1], limit=2048))
    assert done.returncode != 0
    assert "DumpFailed: step " in done.stderr
    assert "the disk is full or a limit is reached" in done.stderr
    found = inspect(output)
    assert not any(dump.whole for dump in found)
    assert any("the disk is full" in problem for problem in found[0].problems)
    assert not list(output.glob("*/*.h5"))


@pytest.mark.parametrize("approach", ["dc:1", pytest.param("dn:1", marks=pytest.mark.slow)])
def test_a_failure_of_one_writer_is_told_to_all_ranks(tmp_path: Path, approach: str) -> None:
    """A rank that ended as if all were well, while others abort, has killed Open MPI's launcher."""
    one = task(tmp_path / "dumps", approach, [0], limit=2048, limited=7, going=True, telling=True)
    config = {**one["config"], "ranks_per_node": 4 if approach == "dc:1" else 2}
    assert list(account(launch(8, {**one, "config": config}))["errors"]) == ["0"]
    texts = {path.name: path.read_text() for path in tmp_path.glob("told-*")}
    assert texts.keys() == {f"told-{rank}" for rank in range(8)}
    assert all("the disk is full or a limit is reached" in text for text in texts.values())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.system
@pytest.mark.parametrize("approach", ["tp", "dc:1", "dn:1"])
def test_a_disk_fills_up(small_disk: Path, approach: str) -> None:
    output = small_disk / "dumps"
    done = launch(4, task(output, approach, list(range(30)), awaited=[0]))
    assert done.returncode != 0
    assert "the disk is full or a limit is reached (No space left on device)" in done.stderr
    found = inspect(output)
    whole = [dump for dump in found if dump.whole]
    assert whole
    assert not [problem for dump in whole for problem in dump.problems]
    assert np.array_equal(fields(output, whole[-1].step)["theta"], field(whole[-1].step))


@pytest.mark.system
@pytest.mark.parametrize("approach", ["tp", "dc:1", "dn:1"])
def test_what_is_lost_leaves_a_full_disk(small_disk: Path, approach: str) -> None:
    """A simulation that goes on after its dumps have failed."""
    output = small_disk / "dumps"
    steps = list(range(30))
    told = account(launch(4, task(output, approach, steps, awaited=[0], going=True)))
    found = {dump.step: dump for dump in inspect(output)}
    whole = [step for step, dump in found.items() if dump.whole]
    assert whole
    assert set(told["errors"]) == {str(step) for step in steps if step not in whole}
    assert told["errors"]
    assert not list(output.glob("*.partial/*.h5"))
