"""Errors that wattio raises on purpose; the command line turns each into one message.

`InputError` says which file, line or key cannot be used, what was wrong and what is allowed. It
comes from the native module, so that Rust and Python refuse input in the same way. So does
`HostError`: the host lacks what was asked of it, or says no.
"""

import errno
import os
import re
import sqlite3
from typing import Literal

from wattio._core import HostError, InputError

__all__ = [
    "Cancelled",
    "DumpFailed",
    "HostError",
    "HostLost",
    "HostRefused",
    "InputError",
    "ResultError",
    "SystemFailed",
    "WattioError",
    "WorkloadFailed",
    "needed",
    "no_room",
    "storage_reason",
    "unusable",
]


class WattioError(Exception):
    """Root of the errors that are raised by wattio's Python code."""


class Cancelled(WattioError):  # noqa: N818 (an outcome that was asked for, not a fault)
    """The work was stopped on request; what was done until then is kept."""


class ResultError(WattioError):
    """A result folder is incomplete, damaged or does not belong to the study at hand."""


class WorkloadFailed(WattioError):  # noqa: N818 (what happened, not a fault of ours)
    """A workload's program failed: which, with its last words."""


class SystemFailed(WattioError):  # noqa: N818
    """A storage system under test did not start, mount or stop: which part, with its last words."""


class HostLost(WorkloadFailed, SystemFailed):
    """A host that takes part in a measurement cannot be reached (any more): which, and why."""


class HostRefused(WorkloadFailed, SystemFailed):
    """A host that takes part cannot do what it was asked to: which, and why."""


class DumpFailed(WattioError):  # noqa: N818
    """Dumps of a simulation did not reach their files: which, and why."""

    account: object = None
    """The whole account, where the error comes from closing the session."""


def unusable(value: float, allowed: str = "a finite number") -> str:
    """What is said of a number that is infinite or none at all; `allowed` may be a range."""
    return f"{value} is not a number that can be used; allowed is {allowed}"


Extra = Literal["hpc", "meters", "models", "cluster", "tables"]
"""The extras of the package; `pyproject.toml` says what each brings."""


def needed(extra: Extra) -> str:
    """The end of a message about a missing library: which extra brings it, and how to get that."""
    return (
        f"needs the extra {extra}: install it from where wattio came from, as in"
        f" pip install 'FILE.whl[{extra}]', or make build in a source tree"
    )


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_DATABASE_FULL = "database or disk is full"
_ERRNO = re.compile(r'"errno":\s*"?(\d+)')


_NO_PARQUET = re.compile(r"No magic bytes|too small to be a Parquet file")


def _of_duckdb(message: str) -> str:
    """What DuckDB says, without the kind of its error and the lines about the query."""
    if _NO_PARQUET.search(message):
        named = re.search(r"[Ff]ile '([^']*)'", message)
        return f"{named[1] if named else 'it'} is not a Parquet file, or was cut"
    return re.sub(r"^[\w ]+ Error: ", "", message.splitlines()[0])


def storage_reason(error: BaseException) -> str | None:
    """What a file system said, in a few words: a full disk, a folder that is read-only.

    None if the error, and what caused it, did not come from files, SQLite or DuckDB: a pipe is
    no file.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, BrokenPipeError):
            return None
        if isinstance(found, OSError):
            where = f"{found.filename}: " if found.filename else ""
            return f"{where}{found.strerror or found}"
        if isinstance(found, sqlite3.Error):
            reason = os.strerror(errno.ENOSPC) if _is_full(found) else found
            return f"catalog.sqlite: {reason}"
        if _is_duckdbs(found):
            number = _errno_of_duckdb(found)
            return os.strerror(number) if number is not None else _of_duckdb(str(found))
        found = found.__cause__
    return None


def no_room(error: BaseException) -> bool:
    """Whether an error, or what led to it, was a full disk or a used-up quota.

    No input is to blame for that, whatever the error's own type: it is the machine's.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.errno in _NO_ROOM:
            return True
        if isinstance(found, sqlite3.Error) and _is_full(found):
            return True
        if _is_duckdbs(found) and _errno_of_duckdb(found) in _NO_ROOM:
            return True
        # One that is raised `from None` has what led to it as its context.
        found = found.__cause__ or found.__context__
    return False


def _is_full(error: sqlite3.Error) -> bool:
    # The second is about the index of the log, for which there was no room.
    name = getattr(error, "sqlite_errorname", "")
    return _DATABASE_FULL in str(error) or name == "SQLITE_IOERR_SHMSIZE"


def _is_duckdbs(error: BaseException) -> bool:
    # Not imported here: most commands go without it.
    return type(error).__module__.split(".")[0].lstrip("_") == "duckdb"


def _errno_of_duckdb(error: BaseException) -> int | None:
    found = _ERRNO.search(str(error))
    return int(found[1]) if found else None
