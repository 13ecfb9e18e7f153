"""The three approaches with real ranks: the same fields, and buffers that are full."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattio.hpcio import Config, blocks, headers, parse_approach, topology
from wattio.hpcio.assembly import fields
from wattio.hpcio.inspection import inspect

from hpcio.dumping_program import PIECES, SHAPE, field, varied
from hpcio.launching import account, launch

STEPS = [0, 10, 20]
TOGETHER = Path(__file__).with_name("shared_file_program.py")
DUMP_BYTES = 4 * int(np.prod(SHAPE)) + 1024
"""A dump of a single computing rank, with its headers."""


def config(output: Path, approach: str, **more: object) -> dict[str, Any]:
    return {"output": str(output), **parse_approach(approach), **more}


@pytest.mark.parametrize(
    ("approach", "ranks", "per_node", "files"),
    [("tp", 3, None, 3), ("dc:1", 7, 4, 2), ("dc:2", 8, 4, 4), ("dn:3", 8, 2, 2)],
)
def test_fields_are_the_same(
    tmp_path: Path, approach: str, ranks: int, per_node: int | None, files: int
) -> None:
    output = tmp_path / "dumps"
    more = {"ranks_per_node": per_node, "compression": "gzip:1" if files == 4 else "none"}
    told = account(launch(ranks, {"config": config(output, approach, **more), "steps": STEPS}))
    found = inspect(output)
    assert [dump.step for dump in found] == STEPS
    assert not [problem for dump in found for problem in dump.problems]
    assert all(dump.whole and dump.approach == approach for dump in found)
    for step in STEPS:
        assembled = fields(output, step)
        assert np.array_equal(assembled["theta"], field(step))
        computing = [int(data[0]) for name, data in assembled.items() if name != "theta"]
        assert len(computing) == len(set(computing)) == ranks - (0 if approach == "tp" else files)
    assert told["files"] == files * len(STEPS)
    assert told["bytes"] == sum(dump.bytes for dump in found)
    assert told["stalls"] == told["drops"] == told["written_through"] == 0
    assert told["errors"] == {}
    assert sorted(path.name for path in output.iterdir()) == [dump.path.name for dump in found]


@pytest.mark.parametrize("buffer", ["4 KiB", pytest.param("1 MiB", marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", ["block", "drop_oldest", "write_through"])
def test_dumps_may_differ(tmp_path: Path, buffer: str, policy: str) -> None:
    """Memory that is taken over from a dump that was alike, in part, or not at all."""
    output, steps = tmp_path / "dumps", list(range(60))
    given = config(output, "dc:1", buffer=buffer, ranks_per_node=3, when_full=policy)
    told = account(launch(3, {"config": given, "varied": True, "steps": steps}))
    whole = [dump.step for dump in inspect(output) if dump.whole]
    assert whole == [step for step in steps if step not in told["dropped"]]
    assert policy == "drop_oldest" or not told["dropped"]
    for step in whole:
        found = fields(output, step)
        wanted = {
            f"{name}/{rank:06}": data
            for rank in (0, 1)
            for name, data in varied(step, rank).items()
        }
        assert set(found) == set(wanted)
        assert all(np.array_equal(found[name], data) for name, data in wanted.items())


@pytest.mark.parametrize("policy", ["block", pytest.param("drop_oldest", marks=pytest.mark.slow)])
def test_free_memory_in_pieces_is_no_error(tmp_path: Path, policy: str) -> None:
    """A dump that fits once ended the simulation, if an older one was done at the wrong moment."""
    output = tmp_path / "dumps"
    made = {name: blocks.make(name, 0, (size,), "f8") for name, size in PIECES.items()}
    share = headers.needed(made["beginning"]) + headers.needed(made["rest"])
    given = config(output, "dc:1", buffer=f"{share} B", when_full=policy, ranks_per_node=2)
    task = {"config": given, "steps": [], "pieces": True, "gated": "end"}
    told = account(launch(2, task))
    assert told["written_through"] == 1
    assert told["errors"] == {}
    assert [dump.problems for dump in inspect(output)] == [[], []]
    found = fields(output, 1)
    for name in ("beginning", "rest"):
        assert found.pop(f"{name}/000000").tolist() == [PIECES[name]] * PIECES[name]
    assert found == {}


@pytest.mark.parametrize("approach", ["dc:1", "dn:1"])
@pytest.mark.parametrize("policy", ["block", "drop_oldest", "write_through"])
def test_a_full_buffer_does_what_its_policy_says(
    tmp_path: Path, approach: str, policy: str
) -> None:
    """Two dumps fit, and the writer is held in the first of four."""
    output = tmp_path / "dumps"
    steps = [0, 1, 2, 3]
    task: dict[str, Any] = {
        "config": config(
            output,
            approach,
            buffer=f"{2 * DUMP_BYTES} B",
            when_full=policy,
            ranks_per_node=2 if approach == "dc:1" else 1,
        ),
        "steps": steps,
        "gated": "stall" if policy == "block" else "end",
    }
    if policy == "write_through":
        task["through"] = [2, 3]
    told = account(launch(2, task))
    dropped = [1, 2] if policy == "drop_oldest" else []
    found = {dump.step: dump for dump in inspect(output)}
    assert [step for step, dump in found.items() if dump.whole] == [
        step for step in steps if step not in dropped
    ]
    assert told["dropped"] == dropped
    assert told["drops"] == len(dropped)
    assert told["written_through"] == (2 if policy == "write_through" else 0)
    assert (told["stalls"] > 0) == (policy == "block")
    for step in steps:
        if step in dropped:
            assert found[step].problems == ["ranks [0]: dropped, the buffer was full"]
        else:
            assert np.array_equal(fields(output, step)["theta"], field(step))


@pytest.mark.parametrize(
    "approach",
    [
        pytest.param("tp", marks=pytest.mark.slow),
        "dc:1",
        pytest.param("dn:1", marks=pytest.mark.slow),
    ],
)
def test_sessions_follow_each_other_and_leave_nothing(tmp_path: Path, approach: str) -> None:
    """Three in one program: the second one's files and threads are those of the third.

    The sessions themselves are kept, and their memory is not.
    """
    given = config(tmp_path / "dumps", approach, ranks_per_node=1 if approach == "dn:1" else 2)
    done = launch(2, {"config": given, "steps": [0, 1], "again": 3})
    assert done.returncode == 0, done.stderr
    held = json.loads(done.stdout)
    assert len(held) == 3
    assert held[1] == held[2]
    assert [rank["maps"] for ranks in held for rank in ranks] == [[]] * 6
    assert {rank["scheduler"] for ranks in held for rank in ranks} == {os.sched_getscheduler(0)}


@pytest.mark.parametrize(
    ("approach", "per_node"), [("dc:2", 3), pytest.param("dn:1", 2, marks=pytest.mark.slow)]
)
def test_a_writer_without_clients_sleeps(tmp_path: Path, approach: str, per_node: int) -> None:
    """The simulation begins once it does; MPI's own wait would take its core to the end."""
    ranks = 3 if approach == "dc:2" else 6
    given = config(tmp_path / "dumps", approach, ranks_per_node=per_node)
    roles = topology.plan(Config.model_validate(given), topology.emulated(ranks, per_node))
    idle = roles.idle[0]
    told = account(launch(ranks, {"config": given, "steps": [0], "idle": idle}))
    assert told["ranks"][idle]["role"] == "writer"
    assert told["files"] == len(roles.writing) - len(roles.idle)


@pytest.mark.parametrize("approach", [pytest.param("tp", marks=pytest.mark.slow), "dc:1"])
def test_a_step_is_a_whole_number(tmp_path: Path, approach: str) -> None:
    given = config(tmp_path / "dumps", approach, ranks_per_node=2)
    told = launch(2, {"config": given, "steps": [0, 1, 2.5], "awaited": [0]})
    assert told.returncode != 0
    assert "end_dump(2.5): a step is a whole number" in told.stderr
    assert [dump.step for dump in inspect(tmp_path / "dumps") if dump.whole][:1] == [0]


@pytest.mark.parametrize(
    "approach",
    [
        pytest.param("tp", marks=pytest.mark.slow),
        "dc:1",
        pytest.param("dn:1", marks=pytest.mark.slow),
    ],
)
def test_steps_may_be_numbers_of_numpy(tmp_path: Path, approach: str) -> None:
    """The account is plain data all the same: it is printed as JSON."""
    given = config(tmp_path / "dumps", approach, ranks_per_node=1 if approach == "dn:1" else 2)
    steps = list(range(10))
    task = {"config": given, "steps": steps, "numpy_steps": True, "awaited": steps}
    told = account(launch(2, task))
    assert [dump["step"] for dump in told["ranks"][0]["dumps"]] == steps


@pytest.mark.parametrize("approach", ["tp", pytest.param("dc:1", marks=pytest.mark.slow)])
def test_a_step_that_no_file_can_hold_is_told(tmp_path: Path, approach: str) -> None:
    given = config(tmp_path / "dumps", approach, ranks_per_node=2)
    told = launch(2, {"config": given, "steps": [0, 1, 1 << 63]})
    assert told.returncode != 0
    assert f"end_dump({1 << 63}): steps go up to {(1 << 63) - 1}" in told.stderr


@pytest.mark.parametrize(
    ("wrong", "reasons"),
    [
        ({"ends": 1}, {20: "ranks [1] ended without this dump"}),
        ({"ends": 0}, {20: "ranks [0] ended without this dump"}),
        ({"strays": 1}, dict.fromkeys((20, 21), "ranks disagree about the step: [20, 21]")),
    ],
)
def test_ranks_that_disagree(
    tmp_path: Path, wrong: dict[str, int], reasons: dict[int, str]
) -> None:
    """In time partitioning, where each has a file of its own and all leave a dump together."""
    output = tmp_path / "dumps"
    task = {"config": config(output, "tp", aggregation="writer"), "steps": STEPS, **wrong}
    done = launch(3, task, TOGETHER)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    ended = wrong.get("ends")
    assert [len(failed) for failed in told["failed"]] == [rank != ended for rank in range(3)]
    wanted = {str(step): [reason] for step, reason in reasons.items()}
    assert told["account"]["errors"] == wanted
    found = {dump.step: dump for dump in inspect(output)}
    assert [step for step, dump in found.items() if dump.whole] == [0, 10]
    assert found[20].problems[0] == reasons[20]
    assert set(found) == {0, 10, *reasons}
    assert not list(output.glob("*.partial/*.h5"))


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    output = tmp_path / "dumps"
    told = launch(2, {"config": config(output, "dc:2", ranks_per_node=2), "steps": STEPS})
    assert told.returncode != 0
    assert "dc:2 takes 2 of each node's ranks to write, and node 0 has 2" in told.stderr
    small = config(output, "dc:1", buffer="5 KiB", ranks_per_node=2)
    told = launch(2, {"config": small, "steps": STEPS})
    assert told.returncode != 0
    assert "this dump needs more than this rank's share of the buffer, 5120 B" in told.stderr
