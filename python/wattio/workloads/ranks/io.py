"""Ranks of `mpi_io`: large transfers, to a file of each rank or to one of all."""

from __future__ import annotations

import os
import random
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
    """A file of one rank, or of all, by the system's calls; the folder had none before."""

    def __init__(self, path: str, write: bool, direct: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT if write else os.O_RDONLY
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
    """A file of a communicator's ranks, by MPI-IO; opening, syncing and closing is collective.

    Transfers are where `collective` says so: then all ranks have to go through all of them.
    """

    def __init__(
        self, path: str, write: bool, comm: MPI.Intracomm, hints: dict[str, str], collective: bool
    ) -> None:
        mode = MPI.MODE_CREATE | MPI.MODE_WRONLY if write else MPI.MODE_RDONLY
        self._path = path
        self._collective = collective
        info = MPI.Info.Create()
        for name, value in hints.items():
            info.Set(name, value)
        self._file = MPI.File.Open(comm, path, mode, info)
        info.Free()

    def taken(self) -> dict[str, str]:
        """The hints that the library goes by."""
        info = self._file.Get_info()
        found = dict(info.items())
        info.Free()
        return found

    def write(self, data: memoryview, offset: int) -> None:
        call = self._file.Write_at_all if self._collective else self._file.Write_at
        call(offset, data)

    def read(self, data: memoryview, offset: int) -> None:
        status = MPI.Status()
        call = self._file.Read_at_all if self._collective else self._file.Read_at
        call(offset, data, status)
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
    stride, first = (block, 0) if task["own_files"] else (block * ranks, block * rank)
    found = [
        segment * stride + first + start
        for segment in range(task["segments"])
        for start in range(0, block, transfer)
    ]
    if task["order"] == "random":
        random.Random(f"order {task['seed']} {rank}").shuffle(found)  # noqa: S311
    return found


def _open(team: Team, owner: int, write: bool) -> _File:
    task = team.task
    path = str(team.folder / (f"data.{owner:06}" if task["own_files"] else "data"))
    if task["api"] != "mpiio":
        return _Posix(path, write, task["direct"])
    comm = MPI.COMM_SELF if task["own_files"] else team.comm
    file = _MpiIo(path, write, comm, task["hints"], task["collective"])
    team.facts["hints"] = file.taken()
    return file


def _move(team: Team, pattern: Pattern, tally: Tally) -> None:
    """Write or read all of a rank's part.

    Of a file that is closed together each rank goes to the end, whatever happens to it: the others
    would wait for it for ever. The first that happened is told then.
    """
    task = team.task
    write = task["program"] == WRITE
    owner = team.rank if write else team.looked_at()
    together = task["api"] == "mpiio" and not task["own_files"]
    failed: Exception | None = None
    file = _open(team, owner, write)
    try:
        for offset in offsets(task, owner, team.size):
            try:
                _transfer(file, task, pattern, owner, offset, tally)
            except Exception as error:
                failed = failed or error
                if not task["collective"]:
                    break
        if write and task["fsync"] and (together or failed is None):
            file.sync()
    finally:
        file.close()
    if failed is not None:
        raise failed


def _transfer(
    file: _File, task: dict[str, Any], pattern: Pattern, owner: int, offset: int, tally: Tally
) -> None:
    """One request of a rank."""
    number = owner if task["own_files"] else 0
    if task["program"] == WRITE:
        data = pattern.right(number, offset)
        with tally.timed():
            file.write(data, offset)
    else:
        with tally.timed():
            file.read(pattern.buffer, offset)
        if task["verify"]:
            _verify(pattern, number, offset, owner)
    tally.bytes += task["transfer_bytes"]


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
