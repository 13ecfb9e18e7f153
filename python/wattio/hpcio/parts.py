"""Part files: the blocks that one process writes of one dump, in HDF5.

    /<variable>/<rank, six digits>     attributes: global_shape, offset (where known), crc32
    /<variable>                        in the one file of a dump (`shared_file`): the whole field

The file's attributes tell the step, the process that wrote it and the version of this form.
"""

from __future__ import annotations

import contextlib
import errno
import json
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


def find(file: h5py.File, block: Block) -> tuple[h5py.Dataset, tuple[slice, ...]]:
    """Where a block's data lie in a file: the dataset, and the block's place in it.

    Raises KeyError where they are not there.
    """
    found = file[block.name]
    if isinstance(found, h5py.Dataset):
        return found, place(block)
    return found[f"{block.rank:06}"], ()


def place(block: Block) -> tuple[slice, ...]:
    """A block's place in the global field; it has one."""
    if block.offset is None:
        raise ValueError(f"{block.name} of rank {block.rank} has no place in a global field")
    return tuple(slice(at, at + size) for at, size in zip(block.offset, block.shape, strict=True))


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
            bring_to_disk(path)
    except (OSError, RuntimeError, ValueError) as error:
        path.unlink(missing_ok=True)
        raise PartFailed(explain(path, error)) from error
    return facts


def bring_to_disk(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put_json(path: Path, content: dict[str, Any], *, sync: bool) -> None:
    """Write JSON that appears when it is whole. Raises OSError; nothing new is left then."""
    new = path.with_suffix(".new")
    try:
        with new.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        new.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    if sync:
        bring_to_disk(path.parent)


def _write(
    path: Path, step: int, process: int, blocks: Sequence[tuple[Block, Array]], config: Config
) -> list[dict[str, Any]]:
    facts = []
    with contextlib.closing(File(path)) as sink, h5py.File(sink, "w") as file:
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
            sink.check()
    return facts


class File:
    """What HDF5 writes through. It does not learn of a failed write: it would crash on closing."""

    def __init__(self, path: Path) -> None:
        """Make the file. Raises OSError."""
        self.error: OSError | None = None
        self._file = path.open("w+b", buffering=0)

    def seek(self, offset: int, whence: int = 0) -> int:
        """As of a file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """As of a file."""
        return self._file.tell()

    def read(self, size: int) -> bytes:
        """As of a file, and whole; h5py looks for it, and calls `readinto`."""
        found = bytearray(size)
        self.readinto(memoryview(found))
        return bytes(found)

    def readinto(self, buffer: memoryview) -> int:
        """As of a file, but whole: what was never written is zeros."""
        got = self._file.readinto(buffer)
        buffer[got:] = bytes(len(buffer) - got)
        return len(buffer)

    def write(self, data: memoryview) -> int:
        """Write all of it, until something fails."""
        left = memoryview(data).cast("B")
        try:
            while len(left) and self.error is None:
                left = left[self._file.write(left) :]
        except OSError as error:
            self.error = error
        return len(data)

    def truncate(self, size: int) -> int:
        """As of a file."""
        try:
            if self.error is None:
                self._file.truncate(size)
        except OSError as error:
            self.error = error
        return size

    def flush(self) -> None:
        """Nothing is held back."""

    def check(self) -> None:
        """Raise what has failed."""
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Close the file. Raises OSError."""
        self._file.close()
        self.check()


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
