"""Holding of knobs in a process of its own, which puts them back when the one that asked is gone.

Whatever ends the measuring process, a `kill -9` included, closes the pipe between the two; the
holder then restores every old value. Should the holder itself be killed, the snapshot on disk
remains, and another one is started to restore from it; the next study's would, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wattio import _core
from wattio.errors import HostError, WattioError

SNAPSHOT = Path("/var/lib/wattio/knobs/snapshot.json")
"""Where old values lie while knobs are held: one place for all, so that any next study mends."""


class _GoneError(HostError):
    """The holder does not answer any more."""


class Holder:
    """Knobs that are held from `with` to its end."""

    def __init__(self, snapshot: Path = SNAPSHOT, root: Path = Path("/")) -> None:
        """Nothing is touched yet."""
        self._snapshot = snapshot
        self._root = root
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Take the locks, and put back what an earlier holder left. Raises HostError."""
        try:
            self._snapshot.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostError(
                f"{self._snapshot.parent}: cannot be created: {error.strerror}"
            ) from error
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self._root), str(self._snapshot)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # A terminal's Ctrl-C is for us; the holder ends when we do.
            start_new_session=True,
        )
        try:
            self._answer()
        except HostError:
            self._end()
            raise
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        """Put everything back, also where the holder was killed.

        Raises HostError for what cannot be put back, with the command that does, and where the
        holder was killed: who had the knobs in between is not known.
        """
        process = self._process
        if process is None:
            return
        last = self._end()
        if process.returncode == 0 and last:
            _raise(last)
            return
        text = self._put_back(process.returncode)
        if isinstance(error, WattioError | HostError) and not isinstance(error, _GoneError):
            text = f"{error}; besides, {text}"
        raise HostError(text)

    def _end(self) -> str:
        """Let the holder put everything back and end; its last words, none if it was killed."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            # What it was asked last may still wait to be written, and nobody reads it.
            process.stdin.close()
        with process.stdout:
            words = process.stdout.read().splitlines()
        process.wait()
        return words[-1] if words else ""

    def _put_back(self, code: int) -> str:
        """Restore from the snapshot what a killed holder left; what became of it, in words."""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        text = f"the process that held the knobs was killed ({how})"
        try:
            with Holder(self._snapshot, self._root):
                return f"{text}; its changes have been undone"
        except HostError as error:
            return f"{text}; {self._left()} ({error})"

    def _left(self) -> str:
        return f"old values are kept in {self._snapshot}; the next study with knobs restores them"

    def put(self, assignments: Mapping[str, str]) -> None:
        """Write values by address; old ones are saved first. Raises HostError."""
        self._ask(dict(assignments))

    def restore(self) -> None:
        """Put every old value back, and hold on. Raises HostError."""
        self._ask(None)

    def _ask(self, assignments: Mapping[str, str] | None) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise HostError("knobs are not held")
        try:
            process.stdin.write(json.dumps(assignments) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # Its last words say why.
        self._answer()

    def _answer(self) -> None:
        process = self._process
        line = process.stdout.readline() if process and process.stdout else ""
        if not line:
            raise _GoneError(f"the process that holds the knobs is gone; {self._left()}")
        _raise(line)


def _raise(line: str) -> None:
    """Raise what the holder complains of, if it does."""
    answer: dict[str, Any] = json.loads(line) if line.strip() else {}
    if "error" in answer:
        raise HostError(answer["error"])


def main(root: str, snapshot: str) -> None:
    """The holder: assignments in, one JSON object a line, null to restore; an answer for each."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    answer: dict[str, str] = {}
    try:
        with _core.HeldKnobs(root, snapshot) as held:
            _say({})
            for line in sys.stdin:
                try:
                    _carry_out(json.loads(line), held)
                    _say({})
                except (HostError, ValueError) as error:
                    _say({"error": str(error)})
    except HostError as error:
        answer = {"error": str(error)}
    _say(answer)


def _carry_out(assignments: dict[str, str] | None, held: _core.HeldKnobs) -> None:
    if assignments is None:
        held.restore()
        return
    for address, value in assignments.items():
        held.write(address, value)


def _say(answer: Mapping[str, str]) -> None:
    try:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody listens any more; what matters is that everything was put back.
        # The interpreter would complain of it once more when it flushes.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123


if __name__ == "__main__":
    main(*sys.argv[1:])
