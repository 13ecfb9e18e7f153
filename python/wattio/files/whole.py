"""Files that appear whole: they are written beside their place first, and then moved into it."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path for what takes a file's place at the end; after an error nothing of it is left.

    What was there until then gives it its mode, and a link to a file stays a link. Raises OSError.
    """
    place = path.resolve() if path.is_symlink() else path
    part = place.with_name(f".{place.name}.part")
    try:
        yield part
        if place.exists():
            part.chmod(stat.S_IMODE(place.stat().st_mode))
        part.replace(place)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        # A full disk names no file, and nobody knows the part.
        if isinstance(error, OSError) and error.filename in (None, str(part), part):
            error.filename = str(path)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write text, in UTF-8, all of it or none. Raises OSError."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
