"""Part files: the blocks that one writer has written of one dump, in HDF5.

    /<variable>/<rank, six digits>     attributes: global_shape, offset (where known), crc32
    /<variable>/box-<rank>             virtual: what many blocks fill together, that rank's first

The file's attributes tell the job, the step, who wrote it and the version of this form.
"""

from __future__ import annotations

import errno
import os
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattio.hpcio.blocks import Block

if TYPE_CHECKING:
    import h5py

    from wattio.hpcio.blocks import Array

VERSION = 1
BOX = "box-"
"""What names of datasets begin with that are made of blocks of the same file."""

_ERRNO = re.compile(r"errno = (\d+)")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# What h5py raises for what is damaged, and NumPy for what does not fit into memory.
UNREADABLE = (
    *(OSError, RuntimeError, LookupError, ValueError, TypeError),
    *(AttributeError, MemoryError, SyntaxError),
)


def dataset_name(block: Block) -> str:
    """Where a block's data lie in its file."""
    return f"{block.name}/{block.rank:06}"


def place(block: Block) -> tuple[slice, ...]:
    """A block's place in the global field; it has one."""
    if block.offset is None:
        raise ValueError(f"{block.name} of rank {block.rank} has no place in a global field")
    return tuple(slice(at, at + size) for at, size in zip(block.offset, block.shape, strict=True))


def crc32(data: Array) -> int:
    """The checksum of a block's data as they lie in memory, row by row, native byte order."""
    import numpy as np

    return zlib.crc32(np.ascontiguousarray(data).data.cast("B")) if data.size else 0


def explain(path: Path, error: Exception) -> str:
    """One line: HDF5 tells the cause in the middle of several."""
    code = error.errno if isinstance(error, OSError) else None
    if found := _ERRNO.search(str(error)):
        code = int(found[1])
    if code in _FULL:
        return f"{path}: the disk is full or a limit is reached ({os.strerror(code)})"
    if code:
        return f"{path}: {os.strerror(code)}"
    return f"{path}: {' '.join(str(error).split())}"


def difference(found: h5py.AttributeManager, told: dict[str, Any]) -> str | None:
    """The first attribute that is not as it should be, in words."""
    for key, value in told.items():
        if key not in found:
            return f"its attribute {key} is missing"
        there = found[key].tolist() if hasattr(found[key], "tolist") else found[key]
        if (tuple(there) if isinstance(there, list) else there) != value:
            return f"its attribute {key} is {there!r}, not {value!r}"
    return None
