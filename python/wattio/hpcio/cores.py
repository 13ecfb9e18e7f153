"""Dedicated cores, the side of the simulation: dumps are filled in memory shared with the writer.

Each client has its even share of the node's buffer, so that one that is ahead cannot take what
another needs to complete an older dump.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpi4py import MPI

from wattio.errors import DumpFailed, InputError
from wattio.hpcio import bells, headers
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.board import Board
from wattio.hpcio.config import Config
from wattio.hpcio.memory import Extents, Memory
from wattio.hpcio.session import Scratch, Session
from wattio.hpcio.topology import Topology

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array


class CoresSession(Session):
    """A rank that computes, with a writer on its node."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        config: Config,
        topology: Topology,
        compute_comm: MPI.Comm,
        address: bytes,
    ) -> None:
        """Reach the writer at its address. Raises HostError."""
        super().__init__(comm, config, topology, compute_comm)
        self._writer = topology.writer_of[self.rank]
        clients = topology.clients(self._writer)
        self._client = clients.index(self.rank)
        self._bell, files = bells.knock(address, self.rank)
        (board, board_bytes), (region, region_bytes) = files
        self._board = Board(Memory(board, board_bytes), len(clients))
        self._memory = Memory(region, region_bytes)
        self._extents = Extents(region_bytes)
        self._number = 0
        self._placed: list[tuple[Block, int]] = []
        self._through = False
        self._views: dict[tuple[str, int], tuple[Block, Array]] = {}
        self._scratch = Scratch()
        self._told = 0
        self._horizon = self._board.horizon()

    def _allocate(self, block: Block) -> Array:
        if not self._through:
            start = self._place(block)
            if start is not None:
                self._placed.append((block, start))
                return self._view(block, start)
            self._through = True
        return self._scratch.array(block)

    def _view(self, block: Block, start: int) -> Array:
        """The block's data; places come back, and so do their views."""
        known = self._views.get((block.name, start))
        if known is None or known[0] is not block:
            known = block, headers.view(self._memory, block, start)
            self._views[block.name, start] = known
        return known[1]

    def _place(self, block: Block) -> int | None:
        """Where a block goes in shared memory; None where the rank shall write by itself."""
        size = headers.needed(block)
        if self._number < self._horizon:
            # Most blocks fit into what is known to be free, which costs no look at the board.
            start = self._extents.take(size, self._number)
            if start is not None:
                return start
        while True:
            self._extents.release(self._board.free)
            self._horizon = self._board.horizon()
            ahead = self._number >= self._horizon
            start = None if ahead else self._extents.take(size, self._number)
            if start is not None:
                return start
            if not ahead and self.config.when_full == "write_through":
                return None
            others = self._extents.owners - {self._number}
            if not ahead and not others:
                raise InputError(
                    f"variable {block.name}: this dump needs more than this rank's share of the"
                    f" buffer, {self._memory.size} B ({size} B did not fit): make buffer larger"
                )
            if self.config.when_full == "drop_oldest" and self._drop():
                continue
            self._wait()

    def _drop(self) -> bool:
        """Drop the oldest dump that waits; whether there was one."""
        number = self._board.drop_oldest(self._number)
        if number is None:
            return False
        self._own.dumps[number].dropped = True
        return True

    def _wait(self) -> None:
        """Sleep until the writer has finished something."""
        self._record.stalled = True
        try:
            self._bell.wait()
        except bells.Died:
            self.lost(f"its writer, rank {self._writer},")

    def _end_dump(self, record: DumpRecord, handed: list[tuple[Block, Array]]) -> None:
        number, placed, through = self._number, self._placed, self._through
        self._number, self._placed, self._through = number + 1, [], False
        head = None
        if through:
            record.written_through = True
            self.leave(record, self.write_part(record, (self.rank,), handed))
            self._extents.release(lambda owner: owner == number)
        else:
            head = headers.write(self._memory, placed)
        self._board.post(self._client, number, record.step, head)
        failure = self._failure()
        try:
            # Last, since the writer may take this core as soon as it is woken. What it has rung
            # meanwhile stays unheard until this rank has to wait.
            self._bell.ring()
        except bells.Died:
            self.lost(f"its writer, rank {self._writer},")
        if through and record.error is not None:
            failure = f"dump of step {record.step}: {record.error}"
        if failure is not None:
            raise DumpFailed(failure)

    def _failure(self) -> str | None:
        """The last failure of the writer, if it has not been told."""
        if not self._board.failed(self._told):
            return None
        count, step, text = self._board.failures()
        more = f" (and {count - self._told - 1} more)" if count > self._told + 1 else ""
        self._told = count
        return f"dump of step {step}: {text}{more}"

    def _finish(self) -> str | None:
        try:
            self._bell.say(bells.CLOSE)
            while bells.ENDED not in self._bell.wait():
                pass
        except bells.Died:
            self.lost(f"its writer, rank {self._writer},")
        return self._failure()
