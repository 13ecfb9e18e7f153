"""What ranks that only write have in common."""

from __future__ import annotations

import sys
import traceback
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wattio.errors import InputError
from wattio.hpcio.account import Account, DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.dumps import Note
from wattio.hpcio.session import Session

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array


class WritingSession(Session):
    """A session whose work is done when the program gets it."""

    is_writer = True

    def run(self) -> None:
        """Serve until the simulation ends; collective with its `close`."""
        try:
            self.serve()
        except Exception:
            # Whoever waits for this rank would wait for ever.
            traceback.print_exc()
            sys.stderr.flush()
            self._comm.Abort(1)
        self._account = self._gather()

    @abstractmethod
    def serve(self) -> None:
        """Write dumps until all clients have closed."""

    def close(self) -> Account:
        """The rank's account."""
        assert self._account is not None
        return self._account

    def write_dump(
        self, record: DumpRecord, ranks: tuple[int, ...], found: Sequence[tuple[Block, Array]]
    ) -> None:
        """Write the blocks of some ranks, unless another writer has lost its part of the dump."""
        if self.config.when_full == "drop_oldest" and self.dumps.is_lost(record.step):
            self.pass_over(record, ranks)
            return
        record.bytes = sum(block.bytes for block, _ in found)
        self.leave(record, self.write_part(record, ranks, found))
        if record.error is not None:
            sys.stderr.write(f"wattio: dump of step {record.step}: {record.error}\n")
            sys.stderr.flush()

    def pass_over(self, record: DumpRecord, ranks: tuple[int, ...]) -> None:
        """Note that a dump was dropped."""
        record.dropped = True
        self.leave(record, Note(self.rank, ranks, dropped=True))

    def _allocate(self, block: Block) -> Array:
        raise InputError("this rank only writes (is_writer)")

    def _end_dump(self, record: DumpRecord, handed: list[tuple[Block, Array]]) -> None:
        raise InputError("this rank only writes (is_writer)")

    def _finish(self) -> str | None:
        return None
