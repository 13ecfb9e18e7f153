"""Where results are to be written: tried before anything is measured, not after."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from wattio.errors import InputError


def writable(option: str, path: Path) -> Path:
    """A path that a file can be written to, by trying it. Raises InputError."""
    if path.is_dir():
        raise InputError(f"{option}: {path} is a folder; name a file")
    # Files are moved into their place, which would put an end to /dev/null.
    if path.exists() and not path.is_file():
        raise InputError(f"{option}: {path} is not a regular file; name one, or a new file")
    if not path.parent.is_dir():
        raise InputError(f"{option}: {path}: there is no folder {path.parent}")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".wattio-"):
            pass
        if path.exists():
            with path.open("ab"):
                pass
    except OSError as error:
        raise InputError(f"{option}: {path}: cannot be written: {error.strerror}") from error
    return path


def not_read(option: str, path: Path, read: Iterable[Path]) -> None:
    """Raise InputError for a path that is one of those that are read: they would be lost."""
    for other in read:
        if path.exists() and other.exists() and path.samefile(other):
            raise InputError(f"{option}: {path} is what is read; name another file")


def folder(option: str, path: Path) -> Path:
    """A path that is a folder, or that one can be made at. Raises InputError.

    Nothing is made or tried: a file in its place is what names it wrongly.
    """
    for place in (path, *path.parents):
        if os.path.lexists(place):
            if not place.is_dir():
                raise InputError(f"{option}: {place} is a file; name a folder")
            break
    return path
