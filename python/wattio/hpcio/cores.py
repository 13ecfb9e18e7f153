"""Dedicated cores, the side of the simulation: dumps are filled in memory shared with the writer.

Each client has its even share of the node's buffer, so that one that is ahead cannot take what
another needs to complete an older dump. Right after computing, little of this program is in the
processor's caches, and each line costs as much as it would elsewhere in ten: so a dump that is like
one before it goes a short way of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from wattio.errors import DumpFailed, InputError
from wattio.hpcio import doorbells, headers
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.board import ENTRY, FAILURES, WINDOW, Board
from wattio.hpcio.client import ClientSession
from wattio.hpcio.config import Config
from wattio.hpcio.memory import Extents, Memory
from wattio.hpcio.places import Places
from wattio.hpcio.session import STEP_MAX, Scratch, whole
from wattio.hpcio.topology import Topology

if TYPE_CHECKING:
    import numpy as np

    from wattio.hpcio.blocks import Array

_SPARE = 64


class CoresSession(ClientSession):
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
        clients = topology.clients(self._writer)
        self._client = clients.index(self.rank)
        self._bell, files = doorbells.connect(address, self.rank)
        (board, board_bytes), (region, region_bytes) = files
        self._board = Board(Memory(board, board_bytes), len(clients))
        self._finished = self._board.finished_word
        self._words, self._entries = self._board.client_slot(self._client)
        self._memory = Memory(region, region_bytes)
        self._extents = Extents[Places](region_bytes)
        self._number = 0
        self._places = Places(0)
        self._through = False
        self._scratch = Scratch()
        self._remembered = deque[Places]()
        """What may serve again, in the order of its last dumps."""
        self._followed: Places | None = None
        """The places of an older dump that this one follows so far."""
        self._taken = 0
        """How many of its blocks have been asked for."""
        self._spare: list[DumpRecord] = []
        """Records for dumps to come: making one takes a sixth of the time of a dump."""
        self._watch(self._bell.peer)

    def allocate(
        self,
        name: str,
        shape: Sequence[int] | int,
        dtype: np.dtype[Any] | type | str = "f8",
        global_shape: Sequence[int] | None = None,
        offset: Sequence[int] | None = None,
    ) -> Array:
        """As of each session; quick as long as the dump is like one before it."""
        began_s = monotonic()
        followed = self._followed
        if followed is None and self._remembered and not self._blocks:
            finished = self._finished[0]
            if self._remembered[0].number < finished and self._number < finished + WINDOW:
                self._followed = followed = self._remembered.popleft()
        if followed is not None:
            at = self._taken
            try:
                alike = followed.asked[at] == (name, shape, dtype, global_shape, offset)
            except (IndexError, ValueError):
                # More blocks than last time, or a shape that is an array.
                alike = False
            if alike:
                self._taken = at + 1
                self._record.blocked_s += monotonic() - began_s
                return followed.arrays[at]
            self._diverge()
        return super().allocate(name, shape, dtype, global_shape, offset)

    def end_dump(self, step: int) -> None:
        """As of each session; quick where the dump was like one before it."""
        began_s = monotonic()
        if type(step) is not int:
            step = whole(step)
        followed, number = self._followed, self._number
        if (
            followed is None
            or self._taken != len(followed.asked)
            or not self._last < step <= STEP_MAX
        ):
            self._diverge()
            super().end_dump(step)
            return
        # What `Board.post` does: each call would take longer than all that it does.
        words, entry = self._words, self._entries + number % WINDOW * ENTRY
        words[entry], words[entry + 1] = step, followed.head
        record = self._record
        record.step, record.bytes = step, followed.bytes
        self._own.dumps.append(record)
        self._record = self._spare.pop() if self._spare else self._more_records()
        followed.number = number
        self._remembered.append(followed)
        self._followed, self._taken, self._number, self._last = None, 0, number + 1, step
        self._bell.count()
        record.blocked_s += monotonic() - began_s
        if words[FAILURES] != self._told and (failed := self._untold(*self._board.failures())):
            raise DumpFailed(failed)

    def _more_records(self) -> DumpRecord:
        self._spare = [DumpRecord(-1) for _ in range(_SPARE)]
        return DumpRecord(-1)

    def _diverge(self) -> None:
        """Go on block by block: of the places that were followed, keep what has been asked for."""
        followed, count = self._followed, self._taken
        if followed is None:
            return
        self._followed, self._taken = None, 0
        self._places = kept = followed.beginning(count, self._number)
        self._extents.pass_on({start for _, start in kept.placed}, kept)
        self._extents.release(lambda owner: owner is followed)
        for (block, _), array in zip(kept.placed, kept.arrays, strict=True):
            self._blocks[block.name] = block, array

    def _allocate(self, block: Block) -> Array:
        if not self._through:
            start = self._place(block)
            if start is not None:
                known = self._known.get(block.name)
                asked = (block.name, *known[0]) if known and known[1] is block else None
                array = headers.view(self._memory, block, start)
                self._places.add(asked, block, start, array)
                return array
            self._through = True
        return self._scratch.array(block)

    def _place(self, block: Block) -> int | None:
        """Where a block goes in shared memory; None where the rank shall write by itself."""
        size = headers.needed(block)
        while True:
            self._release()
            ahead = self._number >= self._finished[0] + WINDOW
            start = None if ahead else self._extents.take(size, self._places)
            if start is not None:
                return start
            if not ahead and self.config.when_full == "write_through":
                return None
            others = self._extents.owners - {self._places}
            if not ahead and not others:
                self._check_fits(block)
                return None
            if self.config.when_full == "drop_oldest" and self._drop():
                continue
            self._wait()

    def _check_fits(self, block: Block) -> None:
        """Whether a dump that found no room has what is its own, though in pieces.

        Its first blocks were put around older dumps, and cannot be moved: the program fills them.
        Raises InputError where the dump can never be, or where this rank cannot write it alone.
        """
        placed = sum(headers.needed(other) for other, _ in self._places.placed)
        size = headers.needed(block)
        share = f"this rank's share of the buffer, {self._memory.size} B"
        if placed + size > self._memory.size:
            raise InputError(
                f"variable {block.name}: this dump needs more than {share} ({size} B did not fit):"
                " make buffer larger"
            )
        if self.config.aggregation == "dump":
            raise InputError(
                f"variable {block.name}: this dump fits into {share}, but not in one piece: other"
                f" dumps were there when it began ({size} B did not fit): make buffer larger"
            )

    def _release(self) -> None:
        """Let go of the memory of dumps that are done."""
        self._extents.release(
            lambda owner: owner is not self._places and self._board.free(owner.number)
        )
        held = self._extents.owners
        self._remembered = deque(one for one in self._remembered if one in held)

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
        except doorbells.PeerDied:
            self._lost()

    def _end_dump(self, record: DumpRecord, handed: list[tuple[Block, Array]]) -> None:
        number, places, through = self._number, self._places, self._through
        self._number, self._places, self._through = number + 1, Places(number + 1), False
        head = None
        if through:
            record.written_through = True
            self.leave(record, self.write_part(record, (self.rank,), handed))
            self._extents.release(lambda owner: owner is places)
        else:
            # Dumps that took over the memory of others have been counted since it was made.
            places.number, places.bytes = number, record.bytes
            places.head = head = headers.write(self._memory, places.placed)
            if places.is_lasting:
                self._remembered.append(places)
        failures = self._board.post(self._client, number, record.step, head)
        # Last, since the writer may take this core as soon as it is woken. What it has rung
        # meanwhile stays unheard until this rank has to wait.
        self._bell.count()
        failed = None if failures == self._told else self._untold(*self._board.failures())
        if through and record.error is not None:
            failed = f"dump of step {record.step}: {record.error}"
        if failed is not None:
            raise DumpFailed(failed)

    def _finish(self) -> str | None:
        self._is_closing = True
        self._followed = None
        self._remembered.clear()
        try:
            self._bell.say(doorbells.CLOSE)
            while doorbells.ENDED not in self._bell.wait():
                pass
        except doorbells.PeerDied:
            self._lost()
        failed = self._untold(*self._board.failures())
        for held in (self._bell, self._memory, self._board.memory):
            held.close()
        # Their arrays would keep the memory.
        self._extents, self._places = Extents(0), Places(0)
        return failed
