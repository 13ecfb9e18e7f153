"""What is in a tar file, looked at before anything is unpacked."""

from __future__ import annotations

import functools
import hashlib
import lzma
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from wattio.errors import InputError
from wattio.files.named import open_file

_BLOCK_BYTES = 4096
_FOLDER = "/nonexistent"


@dataclass(frozen=True)
class Contents:
    """What an archive unpacks to: how many files, their bytes in whole blocks; its own digest."""

    files: int
    block_bytes: int
    sha256: str


def look(path: Path) -> Contents:
    """Read an archive from end to end. Raises InputError where it cannot, or must not, be unpacked.

    Members that would lie outside of the folder, and devices, are refused.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {_said(error)}") from None
    return _look(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _look(path: Path, size_bytes: int, modified_ns: int) -> Contents:
    """An archive that is as large and as old as one before is that one."""
    files = block_bytes = 0
    try:
        with open_file(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with tarfile.open(path) as archive:
            for member in archive:
                tarfile.data_filter(member, _FOLDER)
                files += not member.isdir()
                block_bytes += _BLOCK_BYTES * (1 + member.size // _BLOCK_BYTES)
    except tarfile.FilterError as error:
        raise InputError(f"{path}: cannot be unpacked: {_said(error)}") from None
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{path}: is not a readable tar file: {_said(error)}") from None
    if not files:
        raise InputError(f"{path}: holds no files")
    return Contents(files, block_bytes, digest)


def _said(error: Exception) -> str:
    """The error without a path that was made up for the check."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.replace(f"{_FOLDER}/", "")
