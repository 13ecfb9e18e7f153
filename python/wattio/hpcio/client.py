"""A rank that computes, whose dumps another rank writes: it ends where that one has died."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from typing import NoReturn

from mpi4py import MPI

from wattio.hpcio.config import Config
from wattio.hpcio.session import Session
from wattio.hpcio.topology import Topology


class ClientSession(Session):
    """What ranks with a writer on their own or on another node have in common."""

    def __init__(
        self, comm: MPI.Intracomm, config: Config, topology: Topology, compute_comm: MPI.Comm
    ) -> None:
        """The writer is not reached yet."""
        super().__init__(comm, config, topology, compute_comm)
        self._writer = topology.writer_of[self.rank]
        self._is_closing = False

    def _watch(self, peer: socket.socket) -> None:
        """End all ranks once the writer has closed its end, while this one computes."""
        watch(peer, self._gone)

    def _gone(self) -> None:
        """In a thread: the writer is no more."""
        if not self._is_closing:
            self.gone(f"its writer, rank {self._writer},")

    def _lost(self) -> NoReturn:
        """The writer has died; this rank learns of it when it needs the writer."""
        self.lost(f"its writer, rank {self._writer},")


def watch(peer: socket.socket, gone: Callable[[], object]) -> None:
    """Call `gone` when the peer has closed its end, or this end is shut; a thread sleeps until."""

    def sleep() -> None:
        watched = select.poll()
        with contextlib.suppress(ValueError):  # It is closed already.
            watched.register(peer, select.POLLRDHUP)
            watched.poll()
        gone()

    threading.Thread(target=sleep, name="hpcio-peer", daemon=True).start()
