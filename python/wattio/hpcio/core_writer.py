"""Dedicated cores, the side of the writer: it sleeps until a dump is complete, and writes it.

One thread does it all, since HDF5 is not safe for several.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from mpi4py import MPI

from wattio.hpcio import doorbells
from wattio.hpcio.board import Board, Claim
from wattio.hpcio.config import Config
from wattio.hpcio.doorbells import ClientListener, Doorbell, Poller
from wattio.hpcio.memory import Memory
from wattio.hpcio.topology import Topology
from wattio.hpcio.writer import WritingSession


class CoreWriter(WritingSession):
    """A rank that writes what the ranks of its node hand over."""

    def __init__(
        self, comm: MPI.Intracomm, config: Config, topology: Topology, door: ClientListener
    ) -> None:
        """Wait for the clients at a door. Raises HostError."""
        super().__init__(comm, config, topology, MPI.COMM_NULL)
        self._board = Board.create(len(self._clients))
        share = topology.share(self._clients[0], int(config.buffer)) if self._clients else 0
        self._memories = [Memory.create(f"dumps-{rank}", share) for rank in self._clients]
        board = self._board.memory
        self._bells = door.admit(
            {
                rank: ((board.file, memory.file), (board.size, memory.size))
                for rank, memory in zip(self._clients, self._memories, strict=True)
            }
        )

    def serve(self) -> None:
        """Write dumps until all clients have closed and everything is written."""
        with _yielding():
            self._serve()
        for bell in self._bells.values():
            bell.close()
        for memory in (self._board.memory, *self._memories):
            memory.close()

    def _serve(self) -> None:
        ears, open_ = Poller(self._bells), set(self._bells)
        while True:
            claim = self._board.claim(closed=not open_)
            if claim is not None:
                self._take(claim)
            elif open_:
                self._listen(ears, open_)
            else:
                break
        for rank, bell in self._bells.items():
            self._tell(rank, bell, doorbells.ENDED)
        ears.close()

    def _listen(self, ears: Poller, open_: set[int]) -> None:
        """Sleep until a client tells something; those that close are taken out."""
        for rank, by_counter in ears.wait():
            try:
                if not by_counter and doorbells.CLOSE in self._bells[rank].wait():
                    open_.discard(rank)
            except doorbells.PeerDied:
                self.lost(f"rank {rank}, whose dumps it writes,")
            # After a close, too: all that was counted before it is to be written.
            self._board.told(self._clients.index(rank), self._bells[rank].counted())

    def _take(self, claim: Claim) -> None:
        """Write a dump, or let go of a dropped one; the clients are told."""
        self.take(claim, self._board, self._memories)
        for rank, bell in self._bells.items():
            self._tell(rank, bell, None)

    def _tell(self, rank: int, bell: Doorbell, word: bytes | None) -> None:
        try:
            if word is None:
                bell.ring()
            else:
                bell.say(word)
        except doorbells.PeerDied:
            self.lost(f"rank {rank}, whose dumps it writes,")


@contextlib.contextmanager
def _yielding() -> Iterator[None]:
    """Where cores are few, a writer that wakes does not push the simulation aside."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    yield
    with contextlib.suppress(OSError):
        # What the program does after its session is not the writer's.
        os.sched_setscheduler(0, *before)
