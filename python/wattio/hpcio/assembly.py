"""Global fields out of the blocks of a dump."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import h5py

from wattio.errors import InputError, ResultError
from wattio.files.whole import whole_file
from wattio.hpcio import dumps, inspection, manifest, parts, whole_fields
from wattio.hpcio.manifest import BlockFact, Manifest

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array


def folder(output: Path, step: int) -> Path:
    """The folder of a whole dump. Raises InputError: which steps there are."""
    try:
        found = dumps.find(output)
    except OSError as error:
        raise InputError(f"{output}: cannot be read: {error.strerror}") from error
    if step not in found:
        known = ", ".join(map(str, found)) or "none"
        raise InputError(f"{output}: has no whole dump of step {step}; whole dumps: {known}")
    return found[step]


def fields(output: Path, step: int) -> dict[str, Array]:
    """The global fields of a dump, by their names. Raises InputError and ResultError.

    A variable without a place in a global field comes as `<name>/<rank>`, one for each rank.
    """
    import numpy as np

    found: dict[str, Array] = {}
    for name, fact, data in _blocks(folder(output, step)):
        if fact.global_shape is None or fact.offset is None:
            found[name] = data
        else:
            whole = found.setdefault(name, np.zeros(fact.global_shape, fact.dtype))
            whole[parts.place(fact.block)] = data
    return found


def assemble(output: Path, step: int, target: Path) -> dict[str, tuple[int, ...]]:
    """Write the global fields of a dump to one HDF5 file, with all attributes; their shapes.

    The file appears when it is whole. Never more than one block is held in memory. Raises
    InputError and ResultError.
    """
    source = folder(output, step)
    shapes: dict[str, tuple[int, ...]] = {}
    found = manifest.read(source)
    members: dict[str, list[BlockFact]] = {}
    for fact in found.blocks:
        if fact.global_shape is not None:
            members.setdefault(fact.name, []).append(fact)
    try:
        with whole_file(target) as new, h5py.File(new, "w") as file:
            file.attrs.update(found.attributes)
            file.attrs.update({"wattio_hpcio": parts.VERSION, "step": step})
            for name, fact, data in _blocks(source):
                if name not in shapes:
                    shapes[name] = fact.shape if fact.global_shape is None else fact.global_shape
                    file.create_dataset(name, shapes[name], fact.dtype)
                    those = [fact] if fact.global_shape is None else members[name]
                    file[name].attrs.update(whole_fields.attributes(those))
                file[name][... if fact.global_shape is None else parts.place(fact.block)] = data
    except (OSError, RuntimeError, ValueError) as error:
        raise ResultError(parts.explain(target, error)) from error
    return shapes


def _blocks(source: Path) -> Iterator[tuple[str, BlockFact, Array]]:
    """The blocks of a dump, checked, with the names that they have in the whole."""
    try:
        found = manifest.read(source)
        problems = [*inspection.absent(found), *_disagreements(found)]
        if problems:
            raise ResultError(problems[0])
        for part in found.parts:
            for fact in part.blocks:
                own = fact.global_shape is None
                name = parts.dataset_name(fact.block) if own else fact.name
                yield name, fact, inspection.read(source / part.file, fact)
    except ResultError as error:
        raise ResultError(f"{source}: {error}") from error


def _disagreements(found: Manifest) -> Iterator[str]:
    """Blocks of one variable that do not belong to the same field."""
    first: dict[str, BlockFact] = {}
    for fact in found.blocks:
        other = first.setdefault(fact.name, fact)
        if (other.global_shape, other.dtype) != (fact.global_shape, fact.dtype):
            yield f"{fact.name}: ranks {other.rank} and {fact.rank} disagree about shape or type"
