"""Errors that wattio raises on purpose; the command line turns each into one message.

`InputError` says which file, line or key cannot be used, what was wrong and what is allowed. It
comes from the native module, so that Rust and Python refuse input in the same way. So does
`HostError`: the host lacks what was asked of it, or says no.
"""

from typing import Literal

from wattio._core import HostError, InputError

__all__ = [
    "Cancelled",
    "DumpFailed",
    "HostError",
    "InputError",
    "ResultError",
    "SystemFailed",
    "WattioError",
    "WorkloadFailed",
    "needed",
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


class DumpFailed(WattioError):  # noqa: N818
    """Dumps of a simulation did not reach their files: which, and why."""

    account: object = None
    """The whole account, where the error comes from closing the session."""


def unusable(value: float, allowed: str = "a finite number") -> str:
    """What is said of a number that is infinite or none at all; `allowed` may be a range."""
    return f"{value} is not a number that can be used; allowed is {allowed}"


Extra = Literal["hpc", "meters", "cluster", "tables"]
"""The extras of the package; `pyproject.toml` says what each brings."""


def needed(extra: Extra) -> str:
    """The end of a message about a missing library: which extra brings it, and how to get that."""
    return (
        f"needs the extra {extra}: install it from where wattio came from, as in"
        f" pip install 'FILE.whl[{extra}]', or uv sync --extra {extra} in a source tree"
    )
