"""`fields.h5` of a dump against its manifest: each variable is a virtual dataset over part files.

/<variable>           a field, over all its blocks
/<variable>/<rank>    a block without a place in a field

What many blocks of a part file fill together is a virtual dataset there, and a part of the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import h5py

from wattio.hpcio import parts
from wattio.hpcio.manifest import BlockFact, Manifest

FILE = "fields.h5"

Source = tuple[str, str, tuple[int, ...], tuple[int, ...]]
"""A block's file, its dataset there, and where it begins and ends in the whole."""


def problem(folder: Path, found: Manifest) -> str | None:
    """What first is not as the manifest says, in words; None, too, where there is no such file.

    Manifests of before do not tell whether there is one.
    """
    path = folder / FILE
    if not path.exists():
        return f"{FILE}: is missing" if found.fields else None
    told = {"step": found.step, **({} if found.job is None else {"job": found.job})}
    try:
        with h5py.File(path, "r") as file:
            if other := parts.difference(file.attrs, told):
                return f"{FILE}: belongs to another dump: {other}"
            other = parts.difference(file.attrs, found.attributes) or _variables(file, found)
    except parts.UNREADABLE as error:
        return f"{FILE}: cannot be read: {error}"
    return None if other is None else f"{FILE}: {other}"


def _variables(file: h5py.File, found: Manifest) -> str | None:
    """The first dataset that is not what it should be, in words."""
    wanted: dict[str, list[tuple[str, BlockFact]]] = {}
    for part in found.parts:
        for fact in part.blocks:
            own = fact.global_shape is None
            name = parts.dataset_name(fact.block) if own else fact.name
            wanted.setdefault(name, []).append((part.file, fact))
    there = {
        name
        for key, item in file.items()
        for name in ([f"{key}/{rank}" for rank in item] if isinstance(item, h5py.Group) else [key])
    }
    if more := sorted(there - wanted.keys()):
        return f"{more[0]} is not in the manifest"
    for name, those in wanted.items():
        if name not in there:
            return f"{name} is missing"
        if other := _other(file[name], those):
            return f"{name}: {other}"
    return None


def _other(dataset: h5py.Dataset, those: list[tuple[str, BlockFact]]) -> str | None:
    """How a dataset differs from what its blocks make of it, in words."""
    first = those[0][1]
    shape = first.shape if first.global_shape is None else first.global_shape
    if (dataset.shape, dataset.dtype.str) != (shape, first.dtype):
        here = f"{dataset.dtype.str} {dataset.shape}"
        return f"is {here}, the manifest says {first.dtype} {shape}"
    if first.global_shape is not None and (
        other := parts.difference(dataset.attrs, attributes(fact for _, fact in those))
    ):
        return other
    wanted = {_wanted(file, fact) for file, fact in those if 0 not in fact.shape}
    there = set(_sources(dataset)) if dataset.is_virtual else set()
    if wrong := sorted(there ^ wanted):
        file, name, start, _ = wrong[0]
        where = f"{name} of {file} at {start}"
        return f"{where} is missing" if wrong[0] in wanted else f"{where} is not in the manifest"
    return None


def attributes(blocks: Iterable[BlockFact]) -> dict[str, float | str]:
    """The attributes of a variable, whichever ranks have set them.

    Of values that differ, the lowest rank's counts.
    """
    found: dict[str, float | str] = {}
    for block in sorted(blocks, key=lambda block: block.rank, reverse=True):
        found |= block.attributes
    return found


def _wanted(file: str, fact: BlockFact) -> Source:
    start = fact.offset or (0,) * len(fact.shape)
    end = tuple(at + size - 1 for at, size in zip(start, fact.shape, strict=True))
    return file, parts.dataset_name(fact.block), start, end


def _sources(dataset: h5py.Dataset) -> Iterator[Source]:
    """The blocks that a virtual dataset is made of, those in boxes of part files, too."""
    for one in dataset.virtual_sources():
        source = _source(one)
        if not one.dset_name.rpartition("/")[2].startswith(parts.BOX):
            yield source
            continue
        file, name, start, end = source
        with h5py.File(Path(dataset.file.filename).parent / file, "r") as part:
            box = part[name]
            whole = tuple(after - at + 1 for at, after in zip(start, end, strict=True))
            if box.shape != whole or not box.is_virtual:
                yield source
                continue
            for _, block, first, last in map(_source, box.virtual_sources()):
                yield file, block, _moved(first, start), _moved(last, start)


def _moved(place: tuple[int, ...], by: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(at + more for at, more in zip(place, by, strict=True))


def _source(one: Any) -> Source:  # noqa: ANN401 (h5py has no type of it)
    start, end = one.vspace.get_select_bounds() if one.vspace.shape else ((), ())
    return one.file_name, one.dset_name, tuple(map(int, start)), tuple(map(int, end))
