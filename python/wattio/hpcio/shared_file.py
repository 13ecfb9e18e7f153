"""The one file of a dump, by parallel HDF5: one process makes it, all fill it.

All that HDF5 itself has to know (names, shapes, places) is written, and the disk's space taken, by
the process that makes the file; so nothing can run out while many write at once. Each then writes
its blocks on its own: with the collective writes of Open MPI 4.1, a full disk lost data without
an error (OMPIO) or hung (ROMIO).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from wattio.hpcio import layout, parts
from wattio.hpcio.blocks import Block
from wattio.hpcio.parts import PartFailed

if TYPE_CHECKING:
    from mpi4py import MPI

    from wattio.hpcio.blocks import Array

NAME = "dump.h5"
_DESCRIPTORS = 16
"""Files that MPI-IO may open beside this one: its parts, which are loaded at the first use."""


def can_be() -> bool:
    """Whether this h5py can write a file together with other processes."""
    return bool(h5py.get_config().mpi)


def make(path: Path, step: int, facts: Sequence[dict[str, Any]]) -> None:
    """Make the file for blocks of all processes; their data have their space, but no content.

    Raises PartFailed; nothing is left of the file then.
    """
    try:
        with contextlib.closing(parts.File(path)) as sink, h5py.File(sink, "w") as file:
            file.attrs.update({"wattio_hpcio": parts.VERSION, "step": step})
            _make_datasets(file, facts)
        with path.open("r+b") as made:
            os.posix_fallocate(made.fileno(), 0, os.fstat(made.fileno()).st_size)
    except (OSError, RuntimeError, ValueError, TypeError, MemoryError) as error:
        # Whatever it is: the others wait for word of it.
        with contextlib.suppress(OSError):
            path.unlink()
        raise PartFailed(parts.explain(path, error)) from error


def _make_datasets(file: h5py.File, facts: Sequence[dict[str, Any]]) -> None:
    blocks = tuple(_block(fact) for fact in facts)
    fields = layout.fields(blocks)
    for name, block in fields.items():
        assert block.global_shape is not None
        _make_dataset(file, name, block.global_shape, block.dtype)
    for block, fact in zip(blocks, facts, strict=True):
        if block.name not in fields:
            group = file.require_group(block.name)
            dataset = _make_dataset(group, f"{block.rank:06}", block.shape, block.dtype)
            told = ("global_shape", "offset", "crc32")
            dataset.attrs.update({key: fact[key] for key in told if key in fact})


def _block(fact: dict[str, Any]) -> Block:
    whole, offset = fact.get("global_shape"), fact.get("offset")
    return Block(
        fact["name"],
        fact["rank"],
        tuple(fact["shape"]),
        fact["dtype"],
        None if whole is None else tuple(whole),
        None if offset is None else tuple(offset),
    )


def _make_dataset(group: h5py.Group, name: str, shape: tuple[int, ...], dtype: str) -> h5py.Dataset:
    """A dataset that has its place in the file from the beginning."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
    h5py.h5d.create(group.id, name.encode(), kind, space, settings)
    return group[name]


def obstacle(path: Path) -> str | None:
    """Why this process cannot open the file, in words; None where it can.

    A process that fails to open it would let the others wait for ever, who open it together.
    """
    spare: list[int] = []
    try:
        spare += (os.open(path, os.O_RDWR) for _ in range(_DESCRIPTORS))
    except OSError as error:
        return parts.explain(path, error)
    finally:
        for handle in spare:
            os.close(handle)
    return None


def fill(
    path: Path,
    comm: MPI.Intracomm,
    blocks: Sequence[tuple[Block, Array]],
    meet: Callable[[], None],
) -> str | None:
    """Write this process's blocks into the file; collective. An error in words, or None.

    `meet` waits for all others; they close the file together.
    """
    error = None
    try:
        with h5py.File(path, "r+", driver="mpio", comm=comm) as file:
            try:
                _write(file, blocks)
            except (OSError, RuntimeError, ValueError, KeyError) as caught:
                error = parts.explain(path, caught)
            meet()
    except (OSError, RuntimeError, ValueError) as caught:
        error = error or parts.explain(path, caught)
    return error


def sync(path: Path) -> str | None:
    """Bring what this process has written to the disk; an error in words, or None."""
    try:
        parts.bring_to_disk(path)
    except OSError as error:
        return parts.explain(path, error)
    return None


def _write(file: h5py.File, blocks: Sequence[tuple[Block, Array]]) -> None:
    for block, data in blocks:
        if data.size:
            dataset, place = parts.find(file, block)
            dataset[place] = data
