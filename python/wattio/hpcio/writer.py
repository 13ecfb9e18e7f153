"""What ranks that only write have in common."""

from __future__ import annotations

import sys
import traceback
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpi4py import MPI

from wattio.errors import InputError
from wattio.hpcio import headers
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.board import Board, Claim
from wattio.hpcio.config import Config
from wattio.hpcio.memory import Memory
from wattio.hpcio.notes import Note
from wattio.hpcio.session import Session
from wattio.hpcio.topology import Topology
from wattio.hpcio.writer_group import WriterGroup

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array


class WritingSession(Session):
    """A session whose work is done when the program gets it."""

    is_writer = True
    circle: WriterGroup | None = None
    """Those who write one file of a dump together; None where each has its own."""

    def __init__(
        self, comm: MPI.Intracomm, config: Config, topology: Topology, compute_comm: MPI.Comm
    ) -> None:
        """Ranks are those of `comm`, which is the session's own; collective."""
        super().__init__(comm, config, topology, compute_comm)
        self._clients = topology.clients(self.rank)

    def run(self) -> None:
        """Serve until the simulation ends; collective with its `close`."""
        try:
            self.serve()
            if self.circle is not None:
                self.circle.leave()
        except Exception:
            # Whoever waits for this rank would wait for ever.
            traceback.print_exc()
            sys.stderr.flush()
            self._abort()
        self._account = self._gather(None)

    @abstractmethod
    def serve(self) -> None:
        """Write dumps until all clients have closed."""

    def take(self, claim: Claim, board: Board, memories: Sequence[Memory]) -> None:
        """Write a dump, or let go of a dropped one; its memory is free then."""
        record = DumpRecord(min(one.step for one in claim.posted))
        self._own.dumps.append(record)
        note = self._note(claim)
        found: list[tuple[Block, Array]] = []
        if note.whole:
            found = [
                pair
                for one in claim.posted
                if one.head is not None
                for pair in headers.read(memories[one.client], one.head)
            ]
        if self.circle is not None:
            record.bytes = sum(block.bytes for block, _ in found)
            self.circle.write(record, note, found)
        elif not note.whole:
            record.dropped, record.error = note.dropped, note.error
            self.leave(record, note)
        elif note.ranks:
            self.write_dump(record, note.ranks, found)
        if record.error is not None:
            board.fail(record.step, record.error)
        board.finish(claim.number)

    def _note(self, claim: Claim) -> Note:
        """Whose blocks there are to write of a dump, or why there are none."""
        if claim.dropped:
            return Note(self.rank, self._clients, dropped=True)
        ranks = tuple(self._clients[one.client] for one in claim.posted if one.head is not None)
        missing = set(self._clients) - {self._clients[one.client] for one in claim.posted}
        if missing:
            error = f"ranks {sorted(missing)} ended without this dump"
            return Note(self.rank, ranks, error=error)
        steps = sorted({one.step for one in claim.posted})
        if len(steps) > 1:
            return Note(self.rank, ranks, error=f"ranks disagree about the step: {steps}")
        return Note(self.rank, ranks)

    def write_dump(
        self, record: DumpRecord, ranks: tuple[int, ...], found: Sequence[tuple[Block, Array]]
    ) -> None:
        """Write the blocks of some ranks, unless another writer has lost its part of the dump."""
        loss = self.dumps.loss(record.step) if self.config.when_full == "drop_oldest" else None
        if loss is not None:
            record.dropped, record.error = loss.dropped, loss.error
            self.leave(record, Note(self.rank, ranks, [], loss.error, loss.dropped))
            return
        record.bytes = sum(block.bytes for block, _ in found)
        self.leave(record, self.write_part(record, ranks, found))
        if record.error is not None:
            sys.stderr.write(f"wattio: dump of step {record.step}: {record.error}\n")
            sys.stderr.flush()

    def _allocate(self, block: Block) -> Array:
        raise InputError("this rank only writes (is_writer)")

    def _end_dump(self, record: DumpRecord, handed: list[tuple[Block, Array]]) -> None:
        raise InputError("this rank only writes (is_writer)")

    def _finish(self) -> str | None:
        return None
