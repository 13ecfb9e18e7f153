"""What a system said of itself around and during a step, kept as it said it.

`raw/<identity>/<step>.status.jsonl` has a line for each answer: `{"at": [utc_ns, monotonic_ns],
"status": {...}}`, the first from just before the step and the last from just after it. A question
in between that was not answered is a line with `failure` in place of `status`.
"""

from __future__ import annotations

import contextlib
import json
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

    Nothing is kept where nobody answers. Raises SystemFailed where the first or last answer fails.
    """
    first = ask() if ask is not None else None
    if ask is None or first is None:
        yield
        return
    with _place(folder, step, kind).open("w", encoding="utf-8") as file:

        def keep(content: Mapping[str, Any]) -> None:
            line = {"at": list(now()), **content}
            file.write(json.dumps(line, allow_nan=False) + "\n")

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
    """Do something again and again, in a thread of its own; it has ended afterwards."""
    if period_s <= 0:
        yield
        return
    ended = threading.Event()

    def again() -> None:
        while not ended.wait(period_s):
            do()

    thread = threading.Thread(target=again, name="status", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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
                raise TypeError("status is no object")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ResultError(f"{path}:{number}: is no answer: {error!r}") from error
        found.append(Answer(at, status))
    return tuple(found)


def _place(folder: Path, step: str, kind: str) -> Path:
    return folder / f"{step}.{kind}.jsonl"
