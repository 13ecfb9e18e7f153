"""What neighbours tell each other: the outer columns of their blocks, before each change.

First in x, then in y with what came in x, so that corners arrive too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from wattio.miniapp.atmosphere import Array
from wattio.miniapp.domain import HALO, Arrangement

if TYPE_CHECKING:
    from mpi4py import MPI

_INNER = slice(HALO, -HALO)
_LOW = slice(0, HALO)
_FIRST = slice(HALO, 2 * HALO)
_LAST = slice(-2 * HALO, -HALO)
_HIGH = slice(-HALO, None)


class Halo(Protocol):
    """What fills the halo of a state in x and y."""

    def fill(self, state: Array) -> None:
        """Fill it."""


class Periodic:
    """The halo of a block that is the whole domain."""

    def fill(self, state: Array) -> None:
        """Copy from the other side."""
        for axis in (1, 2):
            _wrap(state, axis)


class Exchange:
    """The halo of one block of many, by messages that do not block."""

    def __init__(self, comm: MPI.Intracomm, arrangement: Arrangement, state: Array) -> None:
        """`state` tells the sizes; buffers for messages are made once."""
        column, row = arrangement.place(comm.rank)
        self._comm = comm
        self._alone = arrangement.across == 1, arrangement.along == 1
        self._neighbours = (
            (arrangement.rank_at(column - 1, row), arrangement.rank_at(column + 1, row)),
            (arrangement.rank_at(column, row - 1), arrangement.rank_at(column, row + 1)),
        )
        self._buffers = [
            [np.empty_like(state[_part(axis, _FIRST)]) for _ in range(4)] for axis in (1, 2)
        ]

    def fill(self, state: Array) -> None:
        """Exchange with the neighbours."""
        for axis in (1, 2):
            if self._alone[axis - 1]:
                _wrap(state, axis)
            else:
                self._exchange(state, axis)

    def _exchange(self, state: Array, axis: int) -> None:
        before, after = self._neighbours[axis - 1]
        to_before, to_after, from_before, from_after = self._buffers[axis - 1]
        # Tags tell the ways apart where both neighbours are the same rank.
        backward, forward = 2 * axis, 2 * axis + 1
        requests = [
            self._comm.Irecv(from_after, after, backward),
            self._comm.Irecv(from_before, before, forward),
        ]
        to_before[...] = state[_part(axis, _FIRST)]
        requests.append(self._comm.Isend(to_before, before, backward))
        to_after[...] = state[_part(axis, _LAST)]
        requests.append(self._comm.Isend(to_after, after, forward))
        for request in requests:
            request.Wait()
        state[_part(axis, _LOW)] = from_before
        state[_part(axis, _HIGH)] = from_after


def _part(axis: int, where: slice) -> tuple[slice, ...]:
    """Columns at an edge: without the halo in y where the exchange is in x, with that of x else."""
    every = slice(None)
    return (every, where, _INNER, _INNER) if axis == 1 else (every, every, where, _INNER)


def _wrap(state: Array, axis: int) -> None:
    state[_part(axis, _LOW)] = state[_part(axis, _LAST)]
    state[_part(axis, _HIGH)] = state[_part(axis, _FIRST)]
