"""Looking at dumps: which there are, whether their data are what was written, what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

from wattio.errors import InputError, ResultError
from wattio.hpcio import blocks, dumps, manifest, parts, whole_fields
from wattio.hpcio.blocks import Block
from wattio.hpcio.manifest import BlockFact, Manifest

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array


_SILENT = "the program ended before, is still writing, or there was no room for it"
"""What can have kept a process from leaving its note."""


@dataclass
class Dump:
    """One dump as it was found."""

    step: int
    path: Path
    whole: bool
    approach: str | None = None
    bytes: int = 0
    files: int = 0
    checked: int = 0
    """Blocks whose checksums were compared."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is no problem, and may not be meant."""

    def as_json(self) -> dict[str, Any]:
        """The dump as plain data."""
        return {**self.__dict__, "path": str(self.path)}


def inspect(output: Path) -> list[Dump]:
    """All dumps below a folder, whole ones checked, in the order of steps. Raises InputError."""
    try:
        whole, partial = dumps.find(output), dumps.find(output, partial=True)
    except OSError as error:
        raise InputError(f"{output}: cannot be read: {error.strerror}") from error
    found = [_whole(step, path) for step, path in whole.items()]
    found += [_partial(step, path) for step, path in partial.items()]
    return sorted(found, key=lambda dump: (dump.step, dump.whole))


def read(path: Path, fact: BlockFact) -> Array:
    """The data of a block in an open dump's file, checked. Raises ResultError."""
    name = parts.dataset_name(fact.block)
    try:
        with h5py.File(path, "r") as file:
            dataset = file[name]
            if dataset.shape != fact.shape:
                # It may be of any size.
                raise ValueError(f"its shape is {dataset.shape}, not {fact.shape}")
            if other := parts.difference(dataset.attrs, _attributes(fact)):
                raise ValueError(other)
            data: Array = dataset[()]
    except parts.UNREADABLE as error:
        raise ResultError(f"{path.name}: {name} cannot be read: {error}") from error
    if data.shape != fact.shape or data.dtype.str != fact.dtype:
        raise ResultError(
            f"{path.name}: {name} is {data.dtype.str} {data.shape}, the manifest says"
            f" {fact.dtype} {fact.shape}"
        )
    if fact.crc32 is not None and parts.crc32(data) != fact.crc32:
        raise ResultError(f"{path.name}: {name} is damaged: its checksum is wrong")
    return data


def _attributes(fact: BlockFact) -> dict[str, Any]:
    """The attributes that a block's dataset has, by the manifest."""
    known = {"global_shape": fact.global_shape, "offset": fact.offset, "crc32": fact.crc32}
    return {**{key: value for key, value in known.items() if value is not None}, **fact.attributes}


def _foreign(found: Manifest, path: Path) -> str | None:
    """Whether a file of a dump is another dump's, in words."""
    told = {"step": found.step, **({} if found.job is None else {"job": found.job})}
    try:
        with h5py.File(path, "r") as file:
            other = parts.difference(file.attrs, told)
    except parts.UNREADABLE:
        # Whoever reads its blocks will tell.
        return None
    return None if other is None else f"{path.name}: belongs to another dump: {other}"


def _whole(step: int, path: Path) -> Dump:
    dump = Dump(step, path, whole=True)
    try:
        found = manifest.read(path)
    except ResultError as error:
        dump.problems.append(str(error))
        return dump
    dump.approach, dump.files = found.approach, len(found.parts)
    if found.step != step:
        dump.problems.append(
            f"manifest: belongs to step {found.step}: one folder was copied over another"
        )
    dump.problems += absent(found)
    dump.notes += shared(found)
    dump.notes += unnamed(found, path)
    if wrong := whole_fields.problem(path, found):
        dump.problems.append(wrong)
    for part in found.parts:
        if not (path / part.file).is_file():
            dump.problems.append(f"{part.file}: is missing, with the blocks of ranks {part.ranks}")
            continue
        if foreign := _foreign(found, path / part.file):
            dump.problems.append(foreign)
            continue
        for fact in part.blocks:
            try:
                dump.bytes += read(path / part.file, fact).nbytes
                dump.checked += fact.crc32 is not None
            except ResultError as error:
                dump.problems.append(str(error))
    return dump


def absent(found: Manifest) -> Iterator[str]:
    """What the manifest itself lacks: ranks, and stretches of global fields."""
    have = {rank for part in found.parts for rank in part.ranks}
    if missing := sorted(set(found.ranks) - have):
        yield f"ranks {missing} are missing"
    for (name, shape), those in _members(found).items():
        if count := math.prod(shape) - blocks.covered(those):
            yield f"{name}: {count} of {math.prod(shape)} elements are missing"


def shared(found: Manifest) -> Iterator[str]:
    """Where blocks overlap, as halos do, or wrong offsets."""
    for (name, _), those in _members(found).items():
        if count := sum(math.prod(one.shape) for one in those) - blocks.covered(those):
            yield f"{name}: blocks overlap by {count} elements; each is read once"


def unnamed(found: Manifest, path: Path) -> Iterator[str]:
    """What lies in a dump's folder and is none of its own files, such as another job's parts."""
    own = {dumps.MANIFEST, whole_fields.FILE, *(part.file for part in found.parts)}
    for name in sorted({one.name for one in path.iterdir()} - own):
        yield f"{name}: is not in the manifest"


def _members(found: Manifest) -> dict[tuple[str, tuple[int, ...]], list[Block]]:
    """The blocks of each global field."""
    members: dict[tuple[str, tuple[int, ...]], list[Block]] = {}
    for fact in found.blocks:
        if fact.global_shape is not None:
            members.setdefault((fact.name, fact.global_shape), []).append(fact.block)
    return members


def _partial(step: int, path: Path) -> Dump:
    dump = Dump(step, path, whole=False)
    dump.files = len(list(path.glob("*.h5")))
    found, expected = dumps.notes(path)
    for note in found:
        if note.dropped:
            dump.problems.append(f"ranks {list(note.ranks)}: dropped, the buffer was full")
        elif note.error is not None and note.error not in dump.problems:
            dump.problems.append(note.error)
    damaged = sorted({one.name for one in path.glob("part-*.json")} - {one.path for one in found})
    dump.problems += [f"{name}: is not a complete note" for name in damaged]
    told = {rank for note in found for rank in note.ranks}
    if not found:
        dump.problems.append(f"no part has a complete note: {_SILENT}")
    elif missing := sorted(expected - told):
        dump.problems.append(f"ranks {missing}: no complete note: {_SILENT}")
    elif all(note.whole for note in found):
        dump.problems.append(
            "all parts are present, but the program ended before the dump was published"
        )
    return dump
