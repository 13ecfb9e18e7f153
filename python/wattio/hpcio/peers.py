"""The ranks' own communication for libwattio_io, by mpi4py."""

from __future__ import annotations

import functools
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from wattio.hpcio import library

_PIECE_BYTES = 1 << 30
"""Of one message: counts of MPI are numbers of 32 bits."""

_PAUSE_S_MIN, _PAUSE_S_MAX, _PAUSE_PART = 0.00005, 0.010, 8
"""How long one sleeps between two looks: at first, at last, between them that part of the wait."""


def of(comm: MPI.Intracomm, machine: int) -> library.Functions:
    """The calls that the library makes. `machine` is the same on all ranks of one machine."""

    def broadcast(_: object, at: int, size: int, root: int) -> None:
        comm.Bcast(_memory(at, size), root)

    def gather(_: object, own: int, size: int, every: int) -> None:
        comm.Allgather(_memory(own, size), _memory(every, size * comm.size))

    def send(_: object, at: int, size: int, to: int) -> None:
        for start in range(0, size, _PIECE_BYTES):
            comm.Send(_memory(at + start, min(_PIECE_BYTES, size - start)), to)

    def receive(_: object, at: int, size: int, source: int) -> None:
        for start in range(0, size, _PIECE_BYTES):
            comm.Recv(_memory(at + start, min(_PIECE_BYTES, size - start)), source)

    def abort(_: object) -> None:
        # Elsewhere another thread may not call MPI: the launcher sees that this rank has ended.
        if MPI.Query_thread() == MPI.THREAD_MULTIPLE:
            comm.Abort(1)
        os._exit(1)

    return library.Functions(
        None,
        comm.rank,
        comm.size,
        machine,
        library.Broadcast(_coded(broadcast)),
        library.Gather(_coded(gather)),
        library.Meet(_coded(lambda _: wait(comm.Ibarrier()))),
        library.Message(_coded(send)),
        library.Message(_coded(receive)),
        library.Abort(abort),
    )


def _memory(at: int, size: int) -> list[Any]:
    # Without a count, which means another thing where there are many ranks.
    return [MPI.memory.fromaddress(at, size), MPI.BYTE]


def _coded(call: Callable[..., None]) -> Callable[..., int]:
    """Give a code: no exception goes through the library."""

    def coded(*arguments: object) -> int:
        try:
            call(*arguments)
        except Exception as error:
            sys.stderr.write(f"wattio: MPI: {error}\n")
            return 1
        return 0

    return coded


def wait(request: MPI.Request) -> None:
    """Wait until a request is done, asleep: MPI's own wait takes the whole core."""
    waited_s = 0.0
    while not request.Test():
        pause_s = min(max(_PAUSE_S_MIN, waited_s / _PAUSE_PART), _PAUSE_S_MAX)
        time.sleep(pause_s)
        waited_s += pause_s


def machines(comm: MPI.Intracomm) -> list[int]:
    """The machine of each rank, as the first rank there. Collective."""
    here = comm.Split_type(MPI.COMM_TYPE_SHARED, comm.rank)
    first = here.bcast(comm.rank)
    here.Free()
    return comm.allgather(first)


@functools.cache
def end_with_launcher() -> None:
    """End this process when its parent, the launcher, does; asleep until then. Once.

    Ranks that no socket connects, as those of different nodes, would compute on for nothing until
    they next wait for each other, and hold their node meanwhile.
    """
    try:
        handle = os.pidfd_open(os.getppid())
    except OSError:
        # A kernel or a container without it: the ranks' own sockets remain.
        return

    def sleep() -> None:
        watched = select.poll()
        watched.register(handle, select.POLLIN)
        watched.poll()
        os._exit(1)

    threading.Thread(target=sleep, name="hpcio-launcher", daemon=True).start()
