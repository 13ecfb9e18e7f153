"""The three approaches with real ranks: the same fields, and buffers that are full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattio.hpcio import parse_approach
from wattio.hpcio.assembling import fields
from wattio.hpcio.inspecting import inspect

from hpcio.dumping_program import SHAPE, field
from hpcio.launching import account, launch

STEPS = [0, 10, 20]
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


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    output = tmp_path / "dumps"
    told = launch(2, {"config": config(output, "dc:2", ranks_per_node=2), "steps": STEPS})
    assert told.returncode != 0
    assert "dc:2 takes 2 of each node's ranks to write, and node 0 has 2" in told.stderr
    small = config(output, "dc:1", buffer="5 KiB", ranks_per_node=2)
    told = launch(2, {"config": small, "steps": STEPS})
    assert told.returncode != 0
    assert "this dump needs more than this rank's share of the buffer, 5120 B" in told.stderr
