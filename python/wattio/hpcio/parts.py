"""Part files: the blocks that one process writes of one dump, in HDF5.

    /<variable>/<rank, six digits>     attributes: global_shape, offset (where known), crc32

The file's attributes tell the step, the process that wrote it and the version of this form.
"""

from __future__ import annotations

import errno
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

from wattio.hpcio.blocks import Block
from wattio.hpcio.config import Config

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array

VERSION = 1
_ERRNO = re.compile(r"errno = (\d+)")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class PartFailed(Exception):  # noqa: N818 (what happened, as DumpFailed)
    """A part file could not be written: which, and why."""


def file_name(process: int) -> str:
    """The file of a process, by its rank."""
    return f"part-{process:06}.h5"


def dataset_name(block: Block) -> str:
    """Where a block's data lie in its file."""
    return f"{block.name}/{block.rank:06}"


def crc32(data: Array) -> int:
    """The checksum of a block's data as they lie in memory, row by row, native byte order."""
    import numpy as np

    return zlib.crc32(np.ascontiguousarray(data).data.cast("B")) if data.size else 0


def write(
    path: Path, step: int, process: int, blocks: Sequence[tuple[Block, Array]], config: Config
) -> list[dict[str, Any]]:
    """Write the file; the facts about its blocks, as the manifest keeps them.

    Raises PartFailed; nothing is left of the file then.
    """
    try:
        facts = _write(path, step, process, blocks, config)
        if config.sync:
            sync(path)
    except (OSError, RuntimeError, ValueError) as error:
        path.unlink(missing_ok=True)
        raise PartFailed(explain(path, error)) from error
    return facts


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(
    path: Path, step: int, process: int, blocks: Sequence[tuple[Block, Array]], config: Config
) -> list[dict[str, Any]]:
    facts = []
    with h5py.File(path, "w") as file:
        file.attrs.update({"wattio_hpcio": VERSION, "step": step, "process": process})
        for block, data in blocks:
            filters: dict[str, Any] = {}
            if config.gzip is not None and data.size and data.ndim:
                filters = {"compression": "gzip", "compression_opts": config.gzip}
            dataset = file.create_dataset(dataset_name(block), data=data, **filters)
            fact = block.as_json()
            if block.global_shape is not None:
                dataset.attrs.update({key: fact[key] for key in ("global_shape", "offset")})
            if config.checksum:
                fact["crc32"] = dataset.attrs["crc32"] = crc32(data)
            facts.append(fact)
    return facts


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
