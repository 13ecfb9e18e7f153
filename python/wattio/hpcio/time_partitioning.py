"""Time partitioning: the simulation stops, and every rank writes its own file.

The ranks leave a dump together. Without that they would drift apart, write while others compute,
and the cost of the output would vanish from where it is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wattio.errors import DumpFailed
from wattio.hpcio import dumps, parts
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.session import Scratch, Session
from wattio.hpcio.verdicts import Contribution, Verdict, judge

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
        if not note.whole:
            self.dumps.lose(record.step, note)
        verdict = self._agree(Contribution(record.step, note))
        if verdict.error is None:
            return
        if verdict.teller is not None:
            record.error = verdict.error
        if verdict.teller == self.rank:
            note = replace(note, blocks=[], error=verdict.error)
        # Of a rank that has written its part, too: nobody needs it.
        self.dumps.lose(record.step, note)
        raise DumpFailed(f"dump of step {record.step}: {verdict.error}")

    def _finish(self) -> str | None:
        # Others may have dumps yet, and would wait for this rank.
        while not self._agree(None).over:
            pass
        return None

    def _agree(self, offer: Contribution | None) -> Verdict:
        """What becomes of a dump; None where this rank has no dump any more. Collective."""
        offers = self._comm.gather(offer)
        verdict = self._comm.bcast(None if offers is None else self._publish(offers))
        assert isinstance(verdict, Verdict)
        return verdict

    def _publish(self, offers: Sequence[Contribution | None]) -> Verdict:
        """Publish a dump that all have written; else say why not, and whose note tells it."""
        verdict = judge(offers, self.dumps.ranks)
        if verdict.over:
            return verdict
        found = [offer for offer in offers if offer is not None]
        if verdict.error is None:
            try:
                self.dumps.publish(found[0].step, [offer.note for offer in found])
            except OSError as error:
                path = self.dumps.output / dumps.name(found[0].step)
                verdict = Verdict(error=parts.explain(path, error))
        if verdict.error is not None and all(offer.note.whole for offer in found):
            verdict = replace(verdict, teller=found[0].note.process)
        return verdict
