"""Dedicated cores: the memory of a dump serves again when that is written, and not before."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray
from wattio.hpcio import Config, client, doorbells, headers, topology
from wattio.hpcio.assembly import fields
from wattio.hpcio.board import Board, Claim
from wattio.hpcio.cores import CoresSession
from wattio.hpcio.memory import Memory

from hpcio.dumping_program import field
from hpcio.launching import account, launch

PROGRAM = Path(__file__).with_name("reuse_program.py")
STEPS = 40
KINDS = [[("a", 5), ("b", 9)], [("a", 5)], [("a", 5), ("b", 3), ("c", 4)], [("b", 9), ("a", 5)]]
"""The variables of a dump, and their sizes: with the same beginning, or in another order."""

Fields = dict[str, NDArray[np.float64]]


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


class Writer:
    """A writer of one client, that goes on only when it is told to; and the client's bell."""

    def __init__(self, share: int) -> None:
        self.board = Board.create(1)
        self.memory = Memory.create("test", share)
        self.peer: None = None
        self.written: dict[int, Fields] = {}
        self._claim: Claim | None = None

    def connect(self, *_: object) -> tuple[Writer, list[tuple[int, int]]]:
        """As of `bells`: a bell, and files."""
        shared = (self.board.memory, self.memory)
        return self, [(os.dup(memory.file), memory.size) for memory in shared]

    def count(self) -> None:
        """Another dump is there."""
        self.board.told(0, 1)

    def wait(self) -> bytes:
        """The client sleeps; so the writer has to have something to do."""
        assert self.go_on()
        return doorbells.LOOK

    def go_on(self) -> bool:
        """Begin with the next dump, or end the one that was begun; whether there was one."""
        claim, self._claim = self._claim, None
        if claim is not None:
            if claim.posted[0].head is not None:
                found = headers.read(self.memory, claim.posted[0].head)
                self.written[claim.posted[0].step] = {
                    block.name: data.copy() for block, data in found
                }
            self.board.finish(claim.number)
            return True
        claim = self.board.claim(closed=False)
        self._claim = None if claim is None or claim.dropped else claim
        return claim is not None


def simulate(session: CoresSession, writer: Writer, draws: random.Random) -> dict[int, Fields]:
    """Dumps that are mostly like the one before, while the writer goes on now and then."""
    made: dict[int, Fields] = {}
    kind = KINDS[0]
    for step in range(STEPS):
        if draws.random() < 0.3:
            kind = draws.choice(KINDS)
        made[step] = {}
        for name, size in kind:
            while draws.random() < 0.4:
                writer.go_on()
            data = session.allocate(name, (size,))
            data[...] = draws.random()
            made[step][name] = data.copy()
        session.end_dump(step)
        while draws.random() < 0.5:
            writer.go_on()
    while writer.go_on():
        pass
    return made


@pytest.mark.parametrize("policy", ["block", "drop_oldest", "write_through"])
@pytest.mark.parametrize("share", [1024, 2048, 8192])
def test_each_dump_is_written_as_it_was_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, policy: str, share: int
) -> None:
    told = {"approach": "dc", "output": tmp_path, "when_full": policy, "ranks_per_node": 2}
    config = Config.model_validate(told)
    roles = topology.plan(config, topology.emulated(2, 2))
    for seed in range(30):
        writer = Writer(share)
        monkeypatch.setattr(doorbells, "connect", writer.connect)
        # It does not die.
        monkeypatch.setattr(client, "watch", lambda *_: None)
        session = CoresSession(MPI.COMM_SELF, config, roles, MPI.COMM_SELF, b"")
        monkeypatch.setattr(session, "write_part", lambda *_: None)
        monkeypatch.setattr(session, "leave", lambda *_: None)
        made = simulate(session, writer, random.Random(seed))
        dumps = session._own.dumps
        kept = [one.step for one in dumps if not (one.dropped or one.written_through)]
        assert sorted(writer.written) == kept
        for step in kept:
            assert set(writer.written[step]) == set(made[step])
            for name, data in made[step].items():
                assert np.array_equal(writer.written[step][name], data), (seed, step, name)
        own = (session._memory, session._board.memory)
        for memory in (*own, writer.memory, writer.board.memory):
            memory.close()
