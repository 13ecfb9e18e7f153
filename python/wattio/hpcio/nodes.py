"""Dedicated nodes, the side of the simulation: a dump is announced, and sent when there is room.

The announcement goes over a socket, whose two ends sleep; the data go by MPI, straight from the
arrays that the simulation has filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from wattio.errors import DumpFailed, InputError
from wattio.hpcio import channels, doorbells, headers
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.blocks import Block
from wattio.hpcio.channels import Address
from wattio.hpcio.client import ClientSession
from wattio.hpcio.config import Config
from wattio.hpcio.session import Scratch
from wattio.hpcio.topology import Topology

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array

DATA_TAG = 1
MESSAGE_BYTES = 1 << 30
"""Data are sent in pieces that MPI's counts can hold."""


class NodesSession(ClientSession):
    """A rank that computes, with a writer on another node."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        config: Config,
        topology: Topology,
        compute_comm: MPI.Comm,
        address: Address,
    ) -> None:
        """Reach the writer at its address. Raises HostError."""
        super().__init__(comm, config, topology, compute_comm)
        self._channel = channels.connect(address, self.rank)
        self._watch(self._channel.peer)
        self._share = topology.share(self.rank, int(config.buffer))
        self._scratch = Scratch()

    def _allocate(self, block: Block) -> Array:
        if self.config.when_full != "write_through":
            others = sum(headers.needed(other) for other, _ in self._blocks.values())
            needed = others + headers.needed(block)
            if needed > self._share:
                raise InputError(
                    f"variable {block.name}: this dump needs more than this rank's share of the"
                    f" buffer, {self._share} B ({needed} B so far): make buffer larger"
                )
        return self._scratch.array(block)

    def _end_dump(self, record: DumpRecord, handed: list[tuple[Block, Array]]) -> None:
        answer = self._ask(step=record.step, blocks=[block.as_json() for block, _ in handed])
        record.stalled = bool(answer["stalled"])
        if answer["through"]:
            record.written_through = True
            self.leave(record, self.write_part(record, (self.rank,), handed))
            answer = self._ask(through=record.step)
            if record.error is not None:
                raise DumpFailed(f"dump of step {record.step}: {record.error}")
        else:
            for _, data in handed:
                for piece in pieces(data):
                    self._comm.Send([piece, MPI.BYTE], self._writer, DATA_TAG)
        if (failed := self._untold(*answer["failures"])) is not None:
            raise DumpFailed(failed)

    def _ask(self, **message: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
        try:
            self._channel.send(**message)
            return self._channel.receive()
        except doorbells.PeerDied:
            self._lost()

    def _finish(self) -> str | None:
        self._is_closing = True
        failed = self._untold(*self._ask(close=True)["failures"])
        self._channel.close()
        return failed


def pieces(data: Array) -> list[memoryview]:
    """The bytes of an array in pieces that fit a message."""
    if data.size == 0:
        return []
    whole = memoryview(data.reshape(-1).data).cast("B")
    return [whole[at : at + MESSAGE_BYTES] for at in range(0, len(whole), MESSAGE_BYTES)]
