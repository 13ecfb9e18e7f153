"""Dedicated cores: the memory of a dump serves again when that is written, and not before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from wattio.hpcio.assembling import fields

from hpcio.dumping_program import field
from hpcio.launching import account, launch

PROGRAM = Path(__file__).with_name("reuse_program.py")


def test_a_dump_that_waits_keeps_its_memory(tmp_path: Path) -> None:
    """A dump in memory of its own, after one that took over another's, was held for that one.

    So its memory was given away when the dump before it was written, and its file had the fields
    of a later one, or the writer met a header in pieces.
    """
    output = tmp_path / "dumps"
    config = {"output": str(output), "approach": "dc", "ranks_per_node": 2}
    told = account(launch(2, {"config": config}, PROGRAM))
    assert (told["errors"], told["stalls"]) == ({}, 0)
    for step in range(5):
        assert np.array_equal(fields(output, step)["theta"], field(step)), step
