"""Dedicated nodes, the side of the writer: one thread listens and receives, the other one writes.

Only the second knows HDF5, and only the first MPI, unless all writers fill one file together.
Memory is bounded by a share of the node's buffer for each client, as with dedicated cores.
"""

from __future__ import annotations

import threading
import traceback
from dataclasses import dataclass
from typing import Any

from mpi4py import MPI

from wattio.hpcio import blocks, headers
from wattio.hpcio.blocks import Block
from wattio.hpcio.board import Board
from wattio.hpcio.channels import ConnectionPoller, Port
from wattio.hpcio.config import Config
from wattio.hpcio.doorbells import PeerDied
from wattio.hpcio.memory import Extents, Memory
from wattio.hpcio.nodes import DATA_TAG, pieces
from wattio.hpcio.topology import Topology
from wattio.hpcio.writer import WritingSession


@dataclass
class _Client:
    """What the writer knows of a client."""

    memory: Memory
    extents: Extents[int]
    number: int = 0
    waiting: tuple[int, list[Block]] | None = None
    """Step and blocks of a dump for which there is no room yet."""


class NodeWriter(WritingSession):
    """A rank that writes what ranks of other nodes send."""

    def __init__(self, comm: MPI.Intracomm, config: Config, topology: Topology, port: Port) -> None:
        """Wait for the clients at a port. Raises HostError."""
        super().__init__(comm, config, topology, MPI.COMM_NULL)
        ranks = self._clients
        self._board = Board.create(len(ranks))
        self._states: list[_Client] = []
        for rank in ranks:
            share = topology.share(rank, int(config.buffer))
            self._states.append(_Client(Memory.create(f"dumps-{rank}", share), Extents(share)))
        self._memories = [state.memory for state in self._states]
        self._channels = port.admit(ranks)
        self._waiter = ConnectionPoller()
        for rank, channel in self._channels.items():
            self._waiter.watch(channel, rank)
        self._news = threading.Condition()
        self._closed = False
        self._broken = False

    def serve(self) -> None:
        """Receive and write dumps until all clients have closed and everything is written."""
        thread = threading.Thread(target=self._write, name="hpcio-writer", daemon=True)
        thread.start()
        open_ = set(self._clients)
        while open_ and not self._broken:
            for rank in self._waiter.wait():
                if self._hear(rank):
                    open_.remove(rank)
                    self._waiter.forget(self._channels[rank])
            for client, state in enumerate(self._states):
                if state.waiting is not None:
                    self._admit(client, *state.waiting, waited=True)
        with self._news:
            self._closed = True
            self._news.notify()
        thread.join()
        if self._broken:
            raise RuntimeError("the writing thread has failed")
        for rank in self._clients:
            self._answer(rank)
        self._waiter.close()
        for channel in self._channels.values():
            channel.close()
        for memory in (self._board.memory, *self._memories):
            memory.close()

    def _write(self) -> None:
        """The thread that writes."""
        try:
            while True:
                with self._news:
                    closed = self._closed
                    claim = self._board.claim(closed=closed)
                    if claim is None:
                        if closed:
                            return
                        self._news.wait()
                        continue
                self.take(claim, self._board, self._memories)
                self._waiter.wake()
        except Exception:
            traceback.print_exc()
            self._broken = True
            self._waiter.wake()

    def _hear(self, rank: int) -> bool:
        """Do what a client asks for; whether it closes."""
        try:
            message = self._channels[rank].receive()
        except PeerDied:
            self.lost(f"rank {rank}, whose dumps it writes,")
        client = self._clients.index(rank)
        if "close" in message:
            return True
        if "through" in message:
            self._post(client, int(message["through"]), None)
            self._answer(rank)
            return False
        found = [blocks.make(**one) for one in message["blocks"]]
        self._admit(client, int(message["step"]), found, waited=False)
        return False

    def _admit(self, client: int, step: int, found: list[Block], *, waited: bool) -> None:
        """Let a client's dump in if there is room, or will be by the policy; else it waits."""
        state, rank = self._states[client], self._clients[client]
        starts = self._place(state, found)
        if starts is None:
            if self.config.when_full == "write_through":
                self._answer(rank, through=True, stalled=waited)
            else:
                state.waiting = step, found
            return
        state.waiting = None
        self._answer(rank, stalled=waited)
        placed = list(zip(found, starts, strict=True))
        head = headers.write(state.memory, placed)
        for block, start in placed:
            for piece in pieces(headers.view(state.memory, block, start)):
                self._comm.Recv([piece, MPI.BYTE], rank, DATA_TAG)
        self._post(client, step, head)

    def _place(self, state: _Client, found: list[Block]) -> list[int] | None:
        """Room for all blocks of a dump; drops what the policy says should give way."""
        while True:
            state.extents.release(self._board.free)
            starts = [state.extents.take(headers.needed(one), state.number) for one in found]
            placed = [start for start in starts if start is not None]
            if len(placed) == len(starts) and state.number < self._board.horizon():
                return placed
            state.extents.release(lambda owner: owner == state.number)
            if self.config.when_full != "drop_oldest":
                return None
            if self._board.drop_oldest(state.number) is None:
                return None

    def _post(self, client: int, step: int, head: int | None) -> None:
        state = self._states[client]
        with self._news:
            self._board.post(client, state.number, step, head)
            self._board.told(client, 1)
            self._news.notify()
        state.number += 1

    def _answer(self, rank: int, **message: Any) -> None:  # noqa: ANN401 (JSON)
        try:
            self._channels[rank].send(
                **{"stalled": False, "through": False, **message},
                failures=self._board.failures(),
            )
        except PeerDied:
            self.lost(f"rank {rank}, whose dumps it writes,")
