"""Time partitioning with one file of a dump: the simulation stops, and all ranks write into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpi4py import MPI

from wattio.errors import DumpFailed
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.config import Config
from wattio.hpcio.notes import Note
from wattio.hpcio.time_partitioning import PartitioningSession
from wattio.hpcio.topology import Topology
from wattio.hpcio.writer_group import WriterGroup

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array


class SharedPartitioningSession(PartitioningSession):
    """A rank that computes and writes in turn, into the file of all."""

    def __init__(
        self, comm: MPI.Intracomm, config: Config, topology: Topology, compute_comm: MPI.Comm
    ) -> None:
        """Ranks are those of `comm`, which is the session's own; collective."""
        super().__init__(comm, config, topology, compute_comm)
        self._circle = WriterGroup(comm.Dup(), self.dumps, config, patient=False)

    def _end_dump(self, record: DumpRecord, handed: list[tuple[Block, Array]]) -> None:
        self._circle.write(record, Note(self.rank, (self.rank,)), handed)
        if record.error is not None:
            raise DumpFailed(f"dump of step {record.step}: {record.error}")

    def _finish(self) -> str | None:
        self._circle.leave()
        return None
