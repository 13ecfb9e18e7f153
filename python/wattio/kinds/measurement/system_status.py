"""What a system said of itself around and during a step, kept as it said it.

`raw/<identity>/<step>.status.jsonl` has a line for each answer: `{"at": [utc_ns, monotonic_ns],
"status": {...}}`, the first from just before the step and the last from just after it. A question
in between that was not answered is a line with `failure` in place of `status`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio.clock import Instant, now
from wattio.errors import ResultError, SystemFailed

STATUS = "status"
"""What a system says; others keep what they ask for under a kind of their own."""

Ask = Callable[[], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Answer:
    """An answer, and when it came."""

    at: Instant
    status: Mapping[str, Any]


@contextlib.contextmanager
def kept(
    ask: Ask | None, period_s: float, folder: Path, step: str, kind: str = STATUS
) -> Iterator[None]:
    """Ask before and after what is done, and each `period_s` meanwhile; keep all answers.

    Nothing is kept where nobody answers. Raises SystemFailed where the first or last answer fails,
    and OSError where they cannot be written.
    """
    first = ask() if ask is not None else None
    if ask is None or first is None:
        yield
        return
    path = _place(folder, step, kind)
    # Without a buffer, so that nothing is left to be written, and to fail, when it is closed.
    with path.open("wb", buffering=0) as file:

        def keep(content: Mapping[str, Any]) -> None:
            line = json.dumps({"at": list(now()), **content}, allow_nan=False).encode() + b"\n"
            try:
                whole = file.write(line) == len(line)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(path)) from error
            if not whole:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

        keep({"status": first})
        with _meanwhile(lambda: keep(_answer(ask)), period_s):
            yield
        keep({"status": ask()})


def _answer(ask: Ask) -> Mapping[str, Any]:
    """A question in between: that it fails is no reason to end the step."""
    try:
        return {"status": ask()}
    except SystemFailed as error:
        return {"failure": str(error)}


@contextlib.contextmanager
def _meanwhile(do: Callable[[], None], period_s: float) -> Iterator[None]:
    """Do something again and again, in a thread of its own; it has ended afterwards.

    Raises, at the end, the OSError that ended it earlier, such as of a full disk.
    """
    if period_s <= 0:
        yield
        return
    ended = threading.Event()

    failures: list[OSError] = []

    def again() -> None:
        try:
            while not ended.wait(period_s):
                do()
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=again, name="status", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]


def read(folder: Path, step: str, kind: str = STATUS) -> tuple[Answer, ...]:
    """The answers of a step, in order; none where nobody was asked. Raises ResultError."""
    path = _place(folder, step, kind)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise ResultError(f"{path}: cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            if "failure" in content:
                continue
            at, status = Instant(*map(int, content["at"])), content["status"]
            if not isinstance(status, dict):
                raise TypeError("status is not an object")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ResultError(f"{path}:{number}: is not an answer: {error!r}") from error
        found.append(Answer(at, status))
    return tuple(found)


def _place(folder: Path, step: str, kind: str) -> Path:
    return folder / f"{step}.{kind}.jsonl"
