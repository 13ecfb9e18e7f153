"""Time partitioning: the simulation stops, and every rank writes its own file.

The ranks leave a dump together. Without that they would drift apart, write while others compute,
and the cost of the output would vanish from where it is looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattio.errors import DumpFailed
from wattio.hpcio import dumps, parts
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.dumps import Note
from wattio.hpcio.session import Scratch, Session

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array


class PartitioningSession(Session):
    """A rank that computes and writes in turn."""

    _scratch: Scratch | None = None

    def _allocate(self, block: Block) -> Array:
        if self._scratch is None:
            self._scratch = Scratch()
        return self._scratch.array(block)

    def _end_dump(self, record: DumpRecord, handed: list[tuple[Block, Array]]) -> None:
        note = self.write_part(record, (self.rank,), handed)
        errors = None
        if not note.whole:
            self.dumps.lose(record.step, note)
        notes = self._comm.gather(note)
        if notes is not None:
            errors = [one.error for one in notes if one.error is not None]
            if not errors:
                try:
                    self.dumps.publish(record.step, notes)
                except OSError as error:
                    record.error = parts.explain(self.dumps.output / dumps.name(record.step), error)
                    errors = [record.error]
                    note = Note(self.rank, (self.rank,), error=record.error)
        errors = self._comm.bcast(errors)
        if errors:
            # Of a rank that has written its part, too: nobody needs it.
            self.dumps.lose(record.step, note)
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise DumpFailed(f"dump of step {record.step}: {errors[0]}{more}")

    def _finish(self) -> None:
        return None
