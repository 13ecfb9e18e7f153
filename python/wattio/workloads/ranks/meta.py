"""Ranks of `mpi_meta`: many small files and directories, in one directory or in a tree."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from wattio.workloads.ranks.team import Failed, Tally, Team, run
from wattio.workloads.ranks.trees import tree


class _Items:
    """The items of one rank: the same names for all that look at them."""

    def __init__(self, folders: Sequence[Path], owner: int, each: int) -> None:
        names = [f"{owner:06}.{number}" for number in range(each)]
        pairs = list(itertools.product(map(str, folders), names))
        self.directories = [f"{folder}/directory.{name}" for folder, name in pairs]
        self.files = [f"{folder}/file.{name}" for folder, name in pairs]


def _each(paths: Sequence[str], operation: Callable[[str], int]) -> Callable[[Tally], None]:
    """A phase: one operation on each path, which tells the bytes it moved."""

    def work(tally: Tally) -> None:
        for path in paths:
            with tally.timed():
                tally.bytes += operation(path)

    return work


def _quiet(call: Callable[[str], object]) -> Callable[[str], int]:
    """An operation that moves no data."""

    def operation(path: str) -> int:
        call(path)
        return 0

    return operation


def _creation(content: bytes, sync: bool) -> Callable[[str], int]:
    def operation(path: str) -> int:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            if content and os.write(file, content) != len(content):
                raise Failed(f"{path}: was written only in part")
            if sync:
                os.fsync(file)
        finally:
            os.close(file)
        return len(content)

    return operation


def _reading(content: bytes, all_of_it: bool) -> Callable[[str], int]:
    def operation(path: str) -> int:
        file = os.open(path, os.O_RDONLY)
        try:
            # One byte more than it should hold tells of files that are too long.
            found = os.read(file, len(content) + all_of_it)
        finally:
            os.close(file)
        if found != content:
            raise Failed(f"{path}: holds wrong data")
        return len(found)

    return operation


def _make(folders: Sequence[Path]) -> None:
    for folder in folders:
        folder.mkdir()


def _folders(team: Team, owner: int) -> list[Path]:
    """The directories that hold a rank's items: its own, or those of all."""
    task, base = team.task, team.folder / "items"
    own = base / f"rank.{owner:06}" if task["unique_folders"] else base
    return tree(own, task["branch"], task["depth"])


def _work(team: Team) -> None:
    task = team.task
    team.gather_at_folder(fresh=True)
    base = team.folder / "items"
    team.together(lambda: base.mkdir() if team.rank == 0 else None)
    if task["unique_folders"]:
        team.together(lambda: _make(_folders(team, team.rank)))
    else:
        team.together(lambda: _make(_folders(team, team.rank)[1:]) if team.rank == 0 else None)
    own = _Items(_folders(team, team.rank), team.rank, task["items_each"])
    # Another client looks at them, as one would answer from its own cache.
    owner = team.looked_at()
    others = _Items(_folders(team, owner), owner, task["items_each"])
    content = bytes(byte % 251 for byte in range(task["file_bytes"]))
    read = content[: task["read_bytes"]]
    phases: dict[str, Callable[[Tally], None]] = {
        "directory_creation": _each(own.directories, _quiet(os.mkdir)),
        "directory_stat": _each(others.directories, _quiet(os.stat)),
        "directory_removal": _each(own.directories, _quiet(os.rmdir)),
        "file_creation": _each(own.files, _creation(content, task["sync"])),
        "file_stat": _each(others.files, _quiet(os.stat)),
        "file_read": _each(others.files, _reading(read, read == content)),
        "file_removal": _each(own.files, _quiet(os.unlink)),
    }
    for name in task["phases"]:
        team.phase(name, phases[name])


if __name__ == "__main__":
    run(_work)
