"""What is said when work in a result folder ends before its end."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wattio.errors import Cancelled, HostError, InputError, ResultError, WattioError, storage_reason
from wattio.results.folder import ResultFolder
from wattio.signals import ended_by_signals


@contextmanager
def resumable(
    folder: ResultFolder, total: int, left: Callable[[], int], noun: str
) -> Iterator[None]:
    """Say how to go on, on Ctrl-C and where a disk is full or a folder was taken away.

    SIGTERM, by which a batch system ends what has used up its time, and a terminal that goes away
    are as Ctrl-C is. `left` counts what is not kept of `total`. Raises Cancelled, ResultError with
    what the file system said, HostError with what the host lacks; every other error passes.
    """
    try:
        with ended_by_signals():
            yield
    except (KeyboardInterrupt, Cancelled):
        kept = _kept(folder, total, left, noun)
        raise Cancelled(
            f"stopped; {kept}; continue with: wattio run --resume {folder.path}"
        ) from None
    except InputError:
        raise
    except HostError as error:
        kept = _kept(folder, total, left, noun)
        raise HostError(
            f"{error}; {kept}; continue with: wattio run --resume {folder.path}"
        ) from error
    except (WattioError, OSError, sqlite3.Error) as error:
        reason = storage_reason(error)
        if reason is None:
            raise
        if _is_all_done(left):
            raise ResultError(
                f"{reason}; all {total} {noun} are kept in {folder.path}, and nothing is left to"
                f" run; for the report: wattio report {folder.path} --out FOLDER"
            ) from error
        kept = _kept(folder, total, left, noun)
        raise ResultError(
            f"{reason}; {kept}; when that is fixed, continue with: wattio run --resume"
            f" {folder.path}"
        ) from error


def _is_all_done(left: Callable[[], int]) -> bool:
    try:
        return left() == 0
    except (WattioError, OSError, sqlite3.Error):
        return False


def _kept(folder: ResultFolder, total: int, left: Callable[[], int], noun: str) -> str:
    try:
        count = str(total - left())
    except (WattioError, OSError, sqlite3.Error):
        return f"what is done is kept in {folder.path}"  # The catalog cannot even be read now.
    return f"{count} of {total} {noun} are kept in {folder.path}"
