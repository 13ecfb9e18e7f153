"""Ranks of `mpi_io`: large transfers, to a file of each rank or to one of all."""

from __future__ import annotations

import os
from typing import Any, Protocol

from mpi4py import MPI

from wattio.workloads.ranks.pattern import DataMismatch, Pattern
from wattio.workloads.ranks.team import Failed, Tally, Team, run

WRITE = "write"


class _File(Protocol):
    """An open file; offsets in bytes."""

    def write(self, data: memoryview, offset: int) -> None:
        """Write all of it."""

    def read(self, data: memoryview, offset: int) -> None:
        """Fill it. Raises Failed at the end of the file."""

    def sync(self) -> None:
        """Bring it to the disks."""

    def close(self) -> None:
        """Close it."""


class _Posix:
    """A file of one rank, by the system's calls."""

    def __init__(self, path: str, write: bool, direct: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if write else os.O_RDONLY
        self._path = path
        self._file = os.open(path, flags | (os.O_DIRECT if direct else 0), 0o644)

    def write(self, data: memoryview, offset: int) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._file, data[done:], offset + done)

    def read(self, data: memoryview, offset: int) -> None:
        done = 0
        while done < len(data):
            got = os.preadv(self._file, [data[done:]], offset + done)
            if got == 0:
                raise Failed(f"{self._path}: ends at byte {offset + done}")
            done += got

    def sync(self) -> None:
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


class _MpiIo:
    """One file of all ranks, by MPI-IO's independent calls; opening and closing is collective."""

    def __init__(self, path: str, write: bool, comm: MPI.Intracomm) -> None:
        mode = MPI.MODE_CREATE | MPI.MODE_WRONLY if write else MPI.MODE_RDONLY
        self._path = path
        self._file = MPI.File.Open(comm, path, mode)

    def write(self, data: memoryview, offset: int) -> None:
        self._file.Write_at(offset, data)

    def read(self, data: memoryview, offset: int) -> None:
        status = MPI.Status()
        self._file.Read_at(offset, data, status)
        got = status.Get_count(MPI.BYTE)
        if got != len(data):
            raise Failed(f"{self._path}: ends at byte {offset + got}")

    def sync(self) -> None:
        self._file.Sync()

    def close(self) -> None:
        self._file.Close()


def offsets(task: dict[str, Any], rank: int, ranks: int) -> list[int]:
    """Where the transfers of a rank lie in its file, in their order."""
    block, transfer = task["block_bytes"], task["transfer_bytes"]
    shared = task["api"] == "mpiio"
    stride, first = (block * ranks, block * rank) if shared else (block, 0)
    return [
        segment * stride + first + start
        for segment in range(task["segments"])
        for start in range(0, block, transfer)
    ]


def _open(team: Team, owner: int, write: bool) -> _File:
    task = team.task
    if task["api"] == "mpiio":
        return _MpiIo(str(team.folder / "data"), write, team.comm)
    return _Posix(str(team.folder / f"data.{owner:06}"), write, task["direct"])


def _move(team: Team, pattern: Pattern, tally: Tally) -> None:
    """Write or read all of a rank's part."""
    task = team.task
    write = task["program"] == WRITE
    owner = team.rank if write else team.shifted(task["shift"])
    number = 0 if task["api"] == "mpiio" else owner
    file = _open(team, owner, write)
    try:
        for offset in offsets(task, owner, team.size):
            if write:
                data = pattern.right(number, offset)
                with tally.timed():
                    file.write(data, offset)
            else:
                with tally.timed():
                    file.read(pattern.buffer, offset)
                if task["verify"]:
                    _verify(pattern, number, offset, owner)
            tally.bytes += task["transfer_bytes"]
        if write and task["fsync"]:
            file.sync()
    finally:
        file.close()


def _verify(pattern: Pattern, number: int, offset: int, owner: int) -> None:
    try:
        pattern.verify(number, offset)
    except DataMismatch as error:
        raise Failed(f"wrong data in the part of rank {owner} {error}") from error


def _work(team: Team) -> None:
    task = team.task
    team.gather_at_folder(fresh=task["program"] == WRITE)
    pattern = Pattern(task["seed"], task["transfer_bytes"])
    team.hold_memory(task["memory_held"])
    team.phase(task["program"], lambda tally: _move(team, pattern, tally))


if __name__ == "__main__":
    run(_work)
