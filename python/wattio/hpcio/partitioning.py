"""Time partitioning: the simulation stops, and every rank writes its own file.

The ranks leave a dump together. Without that they would drift apart, write while others compute,
and the cost of the output would vanish from where it is looked for.
"""

from __future__ import annotations

import time
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
        note = write_part(self, record, (self.rank,), handed)
        failed = not note.whole
        errors = None
        if failed:
            self.dumps.leave(record.step, note)
        notes = self._comm.gather(note)
        if notes is not None:
            errors = [one.error for one in notes if one.error is not None]
            if not errors:
                try:
                    self.dumps.publish(record.step, notes)
                except OSError as error:
                    record.error = f"{dumps.name(record.step)}: {error.strerror}"
                    errors = [record.error]
        errors = self._comm.bcast(errors)
        if errors:
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise DumpFailed(f"dump of step {record.step}: {errors[0]}{more}")

    def _finish(self) -> None:
        return None


def write_part(
    session: Session,
    record: DumpRecord,
    ranks: tuple[int, ...],
    handed: list[tuple[Block, Array]],
) -> Note:
    """Write this process's part of a dump and fill the record; the note to be left."""
    began_s = time.monotonic()
    path = None
    try:
        path = session.dumps.begin(record.step) / parts.file_name(session.rank)
        facts = parts.write(path, record.step, session.rank, handed, session.config)
    except parts.PartFailed as error:
        record.error = str(error)
        return Note(session.rank, ranks, error=record.error)
    finally:
        record.write_s += time.monotonic() - began_s
    record.files += 1
    return Note(session.rank, ranks, facts)
