"""One file of each dump by parallel HDF5, with real ranks of Debian's Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from wattio.hpcio import parse_approach
from wattio.hpcio.assembly import fields
from wattio.hpcio.inspection import inspect

from hpcio import debian
from hpcio.dumping_program import SHAPE, field
from hpcio.test_hpcio_failures import small_disk
from hpcio.waiting import HANGS_S

__all__ = ["small_disk"]

PROGRAM = Path(__file__).with_name("shared_file_program.py")
STEPS = [0, 10, 20]
GRID = (3, 8, 12)

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(debian.missing() is not None, reason=str(debian.missing())),
]


def task(
    output: Path,
    approach: str,
    per_node: int | None = None,
    config: dict[str, Any] | None = None,
    **more: object,
) -> dict[str, Any]:
    if per_node is None and approach != "tp":
        per_node = 2
    keys = {"output": str(output), "ranks_per_node": per_node, **parse_approach(approach)}
    return {"config": {**keys, **(config or {})}, "steps": STEPS, **more}


def told(ranks: int, asked: dict[str, Any]) -> dict[str, Any]:
    place = Path(asked["config"]["output"]).parent
    done = debian.launch(ranks, PROGRAM, asked, place)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("approach", "per_node", "writers"),
    [("tp", None, 0), ("dc:1", 4, 2), ("dc:2", 4, 4), ("dc:3", 4, 6), ("dn:3", 2, 2)],
)
def test_fields_are_the_same_in_one_file(
    tmp_path: Path, approach: str, per_node: int | None, writers: int
) -> None:
    output = tmp_path / "dumps"
    account = told(8, task(output, approach, per_node, config={"sync": True}))["account"]
    found = inspect(output)
    assert [(dump.step, dump.files, dump.approach) for dump in found] == [
        (step, 1, approach) for step in STEPS
    ]
    assert not [problem for dump in found for problem in dump.problems]
    for dump in found:
        assert sorted(path.name for path in dump.path.iterdir()) == ["dump.h5", "manifest.json"]
        assert dump.checked == 2 * (8 - writers)
        with h5py.File(dump.path / "dump.h5") as file:
            assert np.array_equal(file["theta"][()], field(dump.step))
            assert len(file["rank"]) == 8 - writers
        assert np.array_equal(fields(output, dump.step)["theta"], field(dump.step))
    assert account["files"] == len(STEPS)
    assert account["bytes"] == sum(dump.bytes for dump in found)
    assert account["errors"] == {}


@pytest.mark.parametrize(("approach", "ranks"), [("tp", 4), ("dc:1", 6)])
def test_blocks_of_all_kinds(tmp_path: Path, approach: str, ranks: int) -> None:
    """Halos overlap, so they stay apart; a field cut along two axes is written as one."""
    output = tmp_path / "dumps"
    asked = task(output, approach, 3, odd=True)
    assert told(ranks, asked)["failed"] == [[]] * ranks
    assert not [problem for dump in inspect(output) for problem in dump.problems]
    numbers = np.arange(np.prod(GRID)).reshape(GRID)
    with h5py.File(output / "dump-00000010" / "dump.h5") as file:
        assert np.array_equal(file["wind"][()], numbers * 1j + 10)
        assert len(file["halo"]) == len(file["none"]) == 4
        assert [bool(one[()]) for one in file["wet"].values()] == [False, False, True, False]
        assert file["rows"][()].tolist() == [7] * 5
    assert np.array_equal(fields(output, 20)["halo"], numbers.astype("f2"))


def held(output: Path, approach: str, when_full: str) -> dict[str, Any]:
    """Four ranks: the last writer is held in the first dump, and two dumps fit into the buffer."""
    clients_of_node = 1 if approach == "dc:1" else 2
    share_bytes = 2 * (4 * int(np.prod(SHAPE)) // 2 + 1024)
    config = {"buffer": f"{clients_of_node * share_bytes} B", "when_full": when_full}
    return task(output, approach, config=config, held=3) | {"steps": [0, 1, 2, 3]}


def test_a_slow_writer_stalls_the_clients_of_others(tmp_path: Path) -> None:
    output = tmp_path / "dumps"
    account = told(4, held(output, "dc:1", "block") | {"stalls": True})["account"]
    assert account["stalls"] > 0
    assert account["dropped"] == []
    found = inspect(output)
    assert [(dump.step, dump.problems) for dump in found if dump.whole] == [
        (step, []) for step in range(4)
    ]


@pytest.mark.parametrize("approach", ["dc:1", "dn:1"])
def test_what_one_drops_all_drop(tmp_path: Path, approach: str) -> None:
    output = tmp_path / "dumps"
    computing = [0, 2] if approach == "dc:1" else [0, 1]
    account = told(4, held(output, approach, "drop_oldest"))["account"]
    assert account["dropped"] == [1, 2]
    found = inspect(output)
    assert [dump.step for dump in found if dump.whole] == [0, 3]
    assert [dump.problems for dump in found if not dump.whole] == [
        [f"ranks {computing}: dropped, the buffer was full"]
    ] * 2
    assert np.array_equal(fields(output, 3)["theta"], field(3))


@pytest.mark.parametrize("approach", ["tp", "dc:1", "dn:1"])
def test_a_disk_fills_up_under_one_file(small_disk: Path, approach: str) -> None:
    output = small_disk / "dumps"
    asked = task(output, approach) | {"steps": list(range(30))}
    done = debian.launch(4, PROGRAM, asked, small_disk.parent)
    assert done.returncode == 0, done.stderr
    failed = [text for rank in json.loads(done.stdout)["failed"] for text in rank]
    assert failed
    assert all("the disk is full or a limit is reached (No space left" in one for one in failed)
    whole = [dump for dump in inspect(output) if dump.whole]
    assert whole
    assert not [problem for dump in whole for problem in dump.problems]
    assert np.array_equal(fields(output, whole[-1].step)["theta"], field(whole[-1].step))
    assert len(list(output.glob("*/dump.h5"))) == len(whole)


@pytest.mark.parametrize(("approach", "short"), [("tp", 2), ("dc:1", 3), ("dn:1", 3)])
def test_one_that_cannot_open_the_file(tmp_path: Path, approach: str, short: int) -> None:
    """MPI-IO would let the others wait for it for ever."""
    output = tmp_path / "dumps"
    asked = task(output, approach, short=short)
    failed = told(4, asked)["failed"]
    assert any("Too many open files" in text for rank in failed for text in rank)
    found = inspect(output)
    assert not any(dump.whole for dump in found)
    assert all("Too many open files" in dump.problems[0] for dump in found)


@pytest.mark.parametrize(
    ("approach", "wrong", "reason"),
    [
        ("tp", {"ends": 1}, "ranks [1] ended without this dump"),
        ("dc:1", {"ends": 2}, "ranks [2] ended without this dump"),
        ("dn:1", {"ends": 0}, "ranks [0] ended without this dump"),
        ("tp", {"strays": 1}, "ranks disagree about the step: [20, 21]"),
        ("dc:1", {"strays": 2}, "ranks disagree about the step: [20, 21]"),
    ],
)
def test_ranks_that_disagree(
    tmp_path: Path, approach: str, wrong: dict[str, int], reason: str
) -> None:
    output = tmp_path / "dumps"
    failed = told(4, task(output, approach, None, None, **wrong))["failed"]
    assert any(reason in text for rank in failed for text in rank)
    assert [(dump.step, dump.whole) for dump in inspect(output)] == [
        (0, True),
        (10, True),
        (20, False),
    ]
    assert inspect(output)[-1].problems[0] == reason


@pytest.mark.parametrize(("approach", "dies"), [("tp", 1), ("dc:1", 1), ("dc:1", 3), ("dn:1", 3)])
def test_a_death_while_others_wait_ends_the_job(tmp_path: Path, approach: str, dies: int) -> None:
    output = tmp_path / "dumps"
    asked = task(output, approach, dies=dies)
    done = debian.launch(4, PROGRAM, asked, tmp_path)
    assert done.returncode != 0
    found = inspect(output)
    assert found[0].whole
    assert not found[0].problems
    assert not found[-1].whole


def test_a_single_rank(tmp_path: Path) -> None:
    output = tmp_path / "dumps"
    assert told(1, task(output, "tp"))["failed"] == [[]]
    assert not [problem for dump in inspect(output) for problem in dump.problems]


def test_dedicated_nodes_need_mpi_for_two_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPI4PY_RC_THREAD_LEVEL", "serialized")
    done = debian.launch(4, PROGRAM, task(tmp_path / "dumps", "dn:1"), tmp_path)
    assert done.returncode != 0
    assert "with dedicated nodes needs MPI_THREAD_MULTIPLE" in done.stderr
    assert not (tmp_path / "dumps").exists()


@pytest.mark.parametrize("approach", ["tp", "dc:1"])
def test_the_mini_app_writes_one_file_by_another_python(tmp_path: Path, approach: str) -> None:
    """The same state and the same fields as in one file of each writer."""
    theirs = {"--python": debian.PYTHON, "--mpirun": debian.MPIRUN, "--approach": approach}
    lent = debian.lent(tmp_path)
    each = run_mini_app(tmp_path / "each", theirs, lent)
    one = run_mini_app(tmp_path / "one", {**theirs, "--aggregation": "dump"}, lent)
    assert one["state_fingerprint"] == each["state_fingerprint"]
    assert one["files"] == one["dumps_whole"] == 2
    assert each["files"] == 2 * each["ranks_computing"] or approach != "tp"
    for step in (2, 4):
        ours, whole = (fields(Path(told["dumps_folder"]), step) for told in (each, one))
        assert ours.keys() == whole.keys()
        assert all(np.array_equal(ours[name], whole[name]) for name in ours)


def run_mini_app(
    out: Path, options: dict[str, object], environment: dict[str, str]
) -> dict[str, Any]:
    """What `wattio hpcio run` tells of four ranks on two nodes, as JSON."""
    line = [sys.executable, "-m", "wattio.cli", "hpcio", "run", "--json", "--out", str(out)]
    line += ["--size", "tiny", "--ranks", "4", "--steps", "4", "--output-every", "2"]
    line += [str(word) for pair in options.items() for word in pair]
    done = subprocess.run(
        line, env={**os.environ, **environment}, capture_output=True, text=True, timeout=HANGS_S
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
