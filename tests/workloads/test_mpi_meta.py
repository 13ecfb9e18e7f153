"""Many small items by real MPI ranks: in one directory and in a tree, looked at by the others."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from wattio.errors import WorkloadFailed
from wattio.workloads.mpi_meta import FOLDER, STEP, Options, Work, results
from wattio.workloads.ranks import trees
from wattio.workloads.workload import Context, Place

ALL = [
    *("directory_creation", "directory_stat", "directory_removal"),
    *("file_creation", "file_stat", "file_read", "file_removal"),
]


def work(**options: object) -> Work:
    return Work(Options.model_validate(options), Path())


@pytest.mark.parametrize(
    ("options", "clients", "operations"),
    [
        ({"items": 30}, 2, 30),
        ({"items": 8, "shape": "tree", "depth": 2}, 2, 8 * 7),
        ({"items": 10, "launcher": {"ranks_per_client": 3}}, 1, 9),
    ],
)
def test_every_operation_is_a_phase(
    tmp_path: Path, options: dict[str, object], clients: int, operations: int
) -> None:
    subject = work(**options)
    context = Context((Place(tmp_path),) * clients, tmp_path)
    subject.probe()
    subject.prepare(context)
    assert subject.steps() == (STEP,)
    spans = subject.run(STEP, context)
    found = results(tmp_path)
    assert [span.name for span in spans] == [one.operation for one in found] == ALL
    for before, after in itertools.pairwise(spans):
        assert before.start.monotonic_ns < before.end.monotonic_ns <= after.start.monotonic_ns
    assert {one.operations for one in found} == {operations}
    moved = {one.operation: one.bytes for one in found if one.bytes}
    assert moved == {"file_creation": 1024 * operations, "file_read": 1024 * operations}
    assert all(one.iops and one.latency_us["max"] > 0 for one in found)
    assert [path for path in (tmp_path / FOLDER).rglob("*") if path.is_file()] == []
    subject.clean(context)
    assert not (tmp_path / FOLDER).exists()


def test_what_is_doubtful_is_told(tmp_path: Path) -> None:
    subject = work(items=10, kinds=["files"], launcher={"ranks_per_client": 3})
    subject.run(STEP, Context((Place(tmp_path),), tmp_path))
    creation, stat, *_ = results(tmp_path)
    assert creation.doubts == ("10 items do not divide among 3 ranks: 9 were used",)
    assert (
        "each client looked at what it had made itself: it may come from its cache" in stat.doubts
    )


def test_a_failure_names_operation_and_item(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    with pytest.raises(WorkloadFailed, match=f"metadata: rank 0 on .*{FOLDER}"):
        work(items=1).run(STEP, Context((Place(tmp_path),), tmp_path))


def test_a_tree_has_each_directory_after_its_parent() -> None:
    base = Path("/base")
    assert trees.tree(base, 3, 0) == [base]
    found = trees.tree(base, 2, 4)
    assert len(found) == len(set(found)) == 31
    assert all(path.parent in found[:place] for place, path in enumerate(found) if place)


def test_facts_are_plain_data() -> None:
    facts = work(items=600, shape="tree").describe()
    assert facts["directories"] == 31
    json.dumps(facts)
    assert work(items=600).seconds_guess(2) > 0


def test_each_rank_may_have_a_tree_of_its_own(tmp_path: Path) -> None:
    subject = work(items=8, shape="tree", depth=1, unique_folders=True, read_bytes=100)
    subject.run(STEP, Context((Place(tmp_path),) * 2, tmp_path))
    found = {one.operation: one for one in results(tmp_path)}
    assert {one.operations for one in found.values()} == {8 * 3}
    assert found["file_creation"].bytes == 8 * 3 * 1024
    assert found["file_read"].bytes == 8 * 3 * 100
    folders = {path.name for path in (tmp_path / FOLDER / "items").iterdir()}
    assert folders == {"rank.000000", "rank.000001"}


def test_items_are_looked_at_by_so_many_clients_further(tmp_path: Path) -> None:
    subject = work(items=8, kinds=["files"], shift_by=2)
    subject.run(STEP, Context((Place(tmp_path),) * 4, tmp_path))
    assert not any("made itself" in doubt for one in results(tmp_path) for doubt in one.doubts)
    subject.run(STEP, Context((Place(tmp_path),) * 2, tmp_path))
    stat = results(tmp_path)[1]
    assert any("made itself" in doubt for doubt in stat.doubts)
