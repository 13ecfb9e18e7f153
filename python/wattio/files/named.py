"""Files that somebody names: only what is a file is opened, and only so much of it is read."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from pathlib import Path

_BYTES_MAX = 64 << 20
"""What no file that is written by hand comes near: whatever is larger was named by mistake."""

_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFIFO: "pipe (FIFO)",
    stat.S_IFSOCK: "socket",
}


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file for reading. Raises OSError, whose `strerror` says what else it is.

    A FIFO without a writer would block for ever, a device may have no end, and merely opening some
    has effects.
    """
    _refuse_other(path, path.stat().st_mode)
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_other(path, os.fstat(number).st_mode)  # It may have been replaced since.
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_bytes(path: Path, bytes_max: int = _BYTES_MAX) -> bytes:
    """All of a regular file. Raises OSError as `open_file`, also where there is more of it."""
    with open_file(path) as file:
        return _at_most(path, file, bytes_max)


def read_once(path: Path, bytes_max: int) -> bytes:
    """The same, also of a pipe without a name, as of a shell's `<(...)`. Raises OSError."""
    # Such a pipe is reached through a link in /proc that leads nowhere.
    if not (path.is_fifo() and not path.resolve().exists()):
        return read_bytes(path, bytes_max)
    with path.open("rb") as file:
        return _at_most(path, file, bytes_max)


def as_text(content: bytes, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The text of a file, its lines ended as Python's are. Raises UnicodeDecodeError."""
    return io.TextIOWrapper(io.BytesIO(content), encoding, errors).read()


def in_one_line(name: str) -> str:
    """A file's name for a list of names: an end of line in it would look like the list's own."""
    return name.replace("\n", r"\x0a").replace("\t", r"\x09")


def refuse_what_blocks(folder: Path) -> None:
    """Refuse a folder that holds a pipe or a device at any depth. Raises OSError with its path.

    Whoever reads the files of such a folder could wait for ever, or without an end. A socket cannot
    be opened at all, and a program may have left one. Links to folders are followed at the top.
    """
    places = [folder]
    while places:
        at = places.pop()
        try:
            entries = list(os.scandir(at))
        except OSError:
            continue  # It is told where it is needed.
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # A program may be writing there.
                if entry.is_dir(follow_symlinks=at == folder):
                    places.append(Path(entry.path))
                elif not (entry.is_file() or entry.is_dir()):
                    mode = entry.stat().st_mode
                    if not stat.S_ISSOCK(mode):
                        _refuse_other(Path(entry.path), mode)


def _at_most(path: Path, file: io.BufferedReader, bytes_max: int) -> bytes:
    content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        most = f"is larger than {bytes_max >> 20} MiB, the most that is read"
        raise OSError(errno.EFBIG, most, str(path))
    return content


def _refuse_other(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "device")
        raise OSError(errno.EINVAL, f"is a {kind}, not a file", str(path))
