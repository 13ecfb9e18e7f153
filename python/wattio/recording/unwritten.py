"""The folder of a recording until one file is made of it; it stays where that cannot be written."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wattio.errors import Cancelled, ResultError, WattioError, storage_reason


class Place:
    """Such a folder, and the file that is made of it."""

    def __init__(self, path: Path, file: Path) -> None:
        """What is recorded is not needed yet."""
        self.path = path
        self.is_kept = False
        self._file = file

    @contextlib.contextmanager
    def needed(self) -> Iterator[None]:
        """While entered, an error leaves the folder, and its message says how to make the file.

        Raises ResultError for what a disk or wattio says, Cancelled on Ctrl-C.
        """
        try:
            yield
        except KeyboardInterrupt:
            raise Cancelled(f"stopped; {self._keep()}") from None
        except (WattioError, OSError) as error:
            reason = storage_reason(error) if isinstance(error, OSError) else None
            raise ResultError(f"{reason or error}; {self._keep()}") from error
        except BaseException as error:
            error.add_note(self._keep())
            raise

    def _keep(self) -> str:
        self.is_kept = True
        again = f"wattio meter record --from {self.path} --out {self._file}"
        return f"what was recorded is kept in {self.path}; write the file from it with: {again}"


@contextlib.contextmanager
def beside(file: Path, prefix: str) -> Iterator[Place]:
    """A folder on the file system of a file that will be made of it; removed at the end.

    There is room for what is recorded there, or there is not for the file either. Raises OSError.
    """
    place = Place(Path(tempfile.mkdtemp(prefix=prefix, dir=file.parent)), file)
    try:
        yield place
    finally:
        if not place.is_kept:
            shutil.rmtree(place.path, ignore_errors=True)
