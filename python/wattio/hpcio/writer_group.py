"""The processes that write a dump into one file: they agree before it, and about what became of it.

Each brings a note of what it has. The first of them decides: a dump that one has dropped, or that
lacks a rank, is no dump. Ranks that only write sleep while they wait for each other, which may take
as long as the simulation likes.
"""

from __future__ import annotations

import contextlib
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from wattio.hpcio import parts, patience, shared_file
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.config import Config
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.notes import Note
from wattio.hpcio.verdicts import Contribution, Verdict, counted, judge, together

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array


class WriterGroup:
    """One process among those that write dumps together."""

    def __init__(self, comm: MPI.Intracomm, dumps: Dumps, config: Config, *, patient: bool) -> None:
        """`comm` is the circle's own; patient processes sleep while they wait."""
        self._comm = comm
        self._dumps = dumps
        self._config = config
        self._patient = patient

    def write(self, record: DumpRecord, note: Note, handed: Sequence[tuple[Block, Array]]) -> None:
        """Write a dump together, unless something is amiss with it; the record tells. Collective.

        `note` tells whose blocks this process has, or why it has none.
        """
        if note.whole:
            note = Note(note.process, note.ranks, self._facts(handed))
        offers = self._gather(Contribution(record.step, note))
        verdict = self._share(None if offers is None else self._begin(offers))
        if verdict.path is not None:
            began_s = time.monotonic()
            trouble = self._fill(verdict.path, handed)
            record.write_s += time.monotonic() - began_s
            troubles = self._gather(trouble)
            end = None if troubles is None else self._end(offers or [], verdict.path, troubles)
            verdict = self._share(end)
        record.dropped, record.error = verdict.dropped, verdict.error
        if verdict.error is None and not verdict.dropped:
            record.files += self._comm.Get_rank() == 0
            record.shares_file = True

    def leave(self) -> None:
        """Say that this process has no dump any more, until nobody has; the end. Collective."""
        over = False
        while not over:
            offers = self._gather(None)
            over = self._share(None if offers is None else self._begin(offers)).over
        self._comm.Free()

    def _fill(self, path: Path, handed: Sequence[tuple[Block, Array]]) -> str | None:
        """Write this process's blocks; an error in words, or None."""
        trouble = shared_file.obstacle(path)
        told, found = array("i", [trouble is None]), array("i", [0])
        self._wait(self._comm.Iallreduce(told, found, MPI.MIN))
        if found[0]:
            trouble = shared_file.fill(path, self._comm, handed, self._meet)
            if trouble is None and self._config.sync:
                trouble = shared_file.sync(path)
        return trouble

    def _meet(self) -> None:
        """Wait for all."""
        self._wait(self._comm.Ibarrier())

    def _facts(self, handed: Sequence[tuple[Block, Array]]) -> list[dict[str, Any]]:
        facts = [block.as_json() for block, _ in handed]
        if self._config.checksum:
            for fact, (_, data) in zip(facts, handed, strict=True):
                fact["crc32"] = parts.crc32(data)
        return facts

    def _begin(self, offers: Sequence[Contribution | None]) -> Verdict:
        """Make the file of a dump that can be; else leave word why not."""
        verdict = judge(offers, self._dumps.ranks)
        if verdict.over:
            return verdict
        whole = together(offers)
        if not (verdict.error or verdict.dropped):
            try:
                path = self._dumps.begin(whole.step) / shared_file.NAME
                shared_file.make(path, whole.step, whole.note.blocks)
                return Verdict(path)
            except parts.PartFailed as error:
                verdict = Verdict(error=str(error))
        self._lose(whole, verdict)
        return verdict

    def _end(
        self, offers: Sequence[Contribution | None], path: Path, troubles: Sequence[str | None]
    ) -> Verdict:
        """Publish a dump that all have written; else remove it, and leave word."""
        whole = together(offers)
        errors = [trouble for trouble in troubles if trouble is not None]
        if not errors:
            try:
                self._dumps.publish(whole.step, [whole.note])
                return Verdict()
            except OSError as error:
                errors = [parts.explain(path.parent, error)]
        with contextlib.suppress(OSError):
            path.unlink()
        verdict = Verdict(error=counted(errors))
        self._lose(whole, verdict)
        return verdict

    def _lose(self, whole: Contribution, verdict: Verdict) -> None:
        note = whole.note
        self._dumps.leave(
            whole.step, Note(note.process, note.ranks, [], verdict.error, verdict.dropped)
        )
        if self._patient and verdict.error is not None:
            # The simulation learns of it later.
            sys.stderr.write(f"wattio: dump of step {whole.step}: {verdict.error}\n")
            sys.stderr.flush()

    def _gather(self, value: Any) -> list[Any] | None:  # noqa: ANN401 (as MPI's)
        """The values of all processes, on the first one."""
        body = MPI.pickle.dumps(value)
        first = self._comm.Get_rank() == 0
        lengths = array("i", [0] * self._comm.Get_size()) if first else None
        self._wait(self._comm.Igather(array("i", [len(body)]), lengths))
        if lengths is None:
            self._wait(self._comm.Igatherv(body, None))
            return None
        found = bytearray(sum(lengths))
        self._wait(self._comm.Igatherv(body, [found, lengths, None, MPI.BYTE]))
        values, at = [], 0
        for length in lengths:
            values.append(MPI.pickle.loads(found[at : at + length]))
            at += length
        return values

    def _share(self, verdict: Verdict | None) -> Verdict:
        """The verdict of the first process."""
        body = b"" if verdict is None else MPI.pickle.dumps(verdict)
        length = array("i", [len(body)])
        self._wait(self._comm.Ibcast(length))
        text = bytearray(body or length[0])
        self._wait(self._comm.Ibcast(text))
        told = MPI.pickle.loads(text)
        assert isinstance(told, Verdict)
        return told

    def _wait(self, request: MPI.Request) -> None:
        if self._patient:
            patience.wait(request)
        else:
            request.Wait()
