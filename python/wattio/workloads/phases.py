"""The protocol by which a program tells its phases: lines on a pipe, stamped when they are read.

    begin NAME
    result NAME bytes=1048576 operations=256 files=2 operation=read latency_us_p99=120.5
    end NAME

The program finds the number of the pipe's file descriptor in WATTIO_PHASES. Phases may overlap; one
that begins again is told apart by a number. All of a result's numbers are optional.
"""

from __future__ import annotations

import json
import os
import re
import select
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from wattio import clock
from wattio.clock import Instant, Span
from wattio.errors import ResultError, WorkloadFailed

VARIABLE = "WATTIO_PHASES"
LINE_BYTES_MOST = 4096

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_COUNTS = ("bytes", "operations", "files")
_LATENCY = re.compile(r"latency_us_([a-z0-9]{1,16})")
_MOST = 2.0**63
_ALLOWED = (
    "allowed are: begin NAME, end NAME, result NAME bytes=N operations=N files=N operation=WORD"
)


@dataclass(frozen=True)
class TimedLine:
    """One line as it was read, and when."""

    at: Instant
    line: str


@dataclass(frozen=True)
class Outcome:
    """What one `result` line says."""

    operation: str
    bytes: int | None = None
    operations: int | None = None
    latency_us: Mapping[str, float] = field(default_factory=dict)
    files: int | None = None


@dataclass(frozen=True)
class Phase:
    """A phase with its results."""

    span: Span
    outcomes: tuple[Outcome, ...]


class Listener:
    """Reads a pipe into a file, line by line, in a thread; use it with `with`.

    `write_fd` is for the program. Leaving waits for nobody: what was written by then is read. Where
    it cannot be kept, the program goes on, and leaving raises WorkloadFailed.
    """

    def __init__(self, file: Path, copy: Path | None = None) -> None:
        """Lines go to `file` as JSON, one object for each, and untouched to `copy`."""
        self._file = file
        self._copy = copy
        self._read_fd, self.write_fd = os.pipe()
        self._stop_read_fd, self._stop_write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._trouble: OSError | None = None

    def __enter__(self) -> Listener:
        """Begin to read."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Read what is there, and end. Raises WorkloadFailed, unless something else did before."""
        os.close(self.write_fd)
        os.close(self._stop_write_fd)
        self._thread.join()
        os.close(self._read_fd)
        os.close(self._stop_read_fd)
        if self._trouble is not None and kind is None:
            what = self._trouble.strerror
            raise WorkloadFailed(f"{self._file.parent}: a program's phases cannot be saved: {what}")

    def _listen(self) -> None:
        try:
            self._keep()
        except OSError as error:
            self._trouble = error
            # A pipe that nobody reads would stop the program for ever.
            while self._stop_read_fd not in self._ready():
                while self._chunk():
                    pass

    def _ready(self) -> list[int]:
        return select.select([self._read_fd, self._stop_read_fd], [], [])[0]

    def _keep(self) -> None:
        with ExitStack() as files:
            file = files.enter_context(self._file.open("wb"))
            copy = None if self._copy is None else files.enter_context(self._copy.open("wb"))
            rest = b""
            stopped = False
            while not stopped:
                ready = self._ready()
                # After the stop one more read gets what is there; who writes on is not waited for.
                stopped = self._stop_read_fd in ready
                while chunk := self._chunk():
                    if copy is not None:
                        copy.write(chunk)
                        copy.flush()
                    *lines, rest = (rest + chunk).split(b"\n")
                    _write(file, lines)
                    if len(rest) > LINE_BYTES_MOST:
                        _write(file, [rest])
                        rest = b""
            _write(file, [rest] if rest else [])

    def _chunk(self) -> bytes:
        try:
            return os.read(self._read_fd, 1 << 16)
        except BlockingIOError:
            return b""


def _write(file: BinaryIO, lines: Sequence[bytes], at: Instant | None = None) -> None:
    at = at or clock.now()
    for line in lines:
        text = line[:LINE_BYTES_MOST].decode(errors="replace")
        told = {"utc_ns": at.utc_ns, "monotonic_ns": at.monotonic_ns, "line": text}
        file.write(json.dumps(told).encode() + b"\n")
    file.flush()


def keep(file: Path, lines: Sequence[tuple[Instant, str]]) -> None:
    """Leave lines that were heard elsewhere, as a listener does."""
    with file.open("wb") as out:
        for at, line in lines:
            _write(out, [line.encode()], at)


def recall(file: Path) -> list[TimedLine]:
    """The lines that a listener left. Raises ResultError."""
    found = []
    try:
        for row in file.read_bytes().splitlines():
            told = json.loads(row)
            stamps = (told["utc_ns"], told["monotonic_ns"])
            if not all(isinstance(one, int) for one in stamps) or not isinstance(told["line"], str):
                raise ValueError("a field has the wrong type")
            found.append(TimedLine(Instant(*stamps), told["line"]))
    except OSError as error:
        raise ResultError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultError(f"{file}: is damaged: {error}") from None
    return found


def parse(lines: Sequence[TimedLine]) -> list[Phase]:
    """The phases in the order of their beginnings. Raises ResultError for a line that is wrong."""
    begun: dict[str, Instant] = {}
    shown: dict[str, str] = {}
    times: dict[str, int] = {}
    spans: dict[str, Span | None] = {}
    outcomes: dict[str, list[Outcome]] = {}
    for told in lines:
        words = told.line.split()
        if not words:
            continue
        verb, name, *rest = [*words, ""] if len(words) == 1 else words
        if verb not in ("begin", "end", "result") or not _NAME.fullmatch(name):
            raise ResultError(f"{told.line[:80]!r} is not understood; {_ALLOWED}")
        if verb == "begin":
            if name in begun:
                raise ResultError(f'phase "{name}" begins again before it ended')
            times[name] = times.get(name, 0) + 1
            shown[name] = name if times[name] == 1 else f"{name} {times[name]}"
            begun[name] = told.at
            spans[shown[name]] = None
            outcomes[shown[name]] = []
        elif name not in shown or (verb == "end" and name not in begun):
            raise ResultError(f'"{verb} {name}" comes before "begin {name}"')
        elif verb == "end":
            spans[shown[name]] = Span(shown[name], begun.pop(name), told.at)
        else:
            outcomes[shown[name]].append(_outcome(name, rest))
    for name in begun:
        raise ResultError(f'phase "{name}" never ends')
    return [Phase(span, tuple(outcomes[name])) for name, span in spans.items() if span is not None]


def _outcome(name: str, words: Sequence[str]) -> Outcome:
    counts: dict[str, int] = {}
    latency: dict[str, float] = {}
    operation = name
    for key, value in _settings(words):
        if key in _COUNTS:
            if not (value.isascii() and value.isdigit() and len(value) < 19):
                raise ResultError(f"result {name}: {key}={value[:40]} is not a whole number")
            counts[key] = int(value)
        elif statistic := _LATENCY.fullmatch(key):
            latency[statistic[1]] = _number(name, key, value)
        elif key == "operation" and _NAME.fullmatch(value):
            operation = value
        else:
            raise ResultError(
                f"result {name}: {key[:40]}={value[:40]} is not understood; {_ALLOWED}"
            )
    return Outcome(
        operation, counts.get("bytes"), counts.get("operations"), latency, counts.get("files")
    )


def _settings(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        key, _, value = word.partition("=")
        yield key, value


def _number(name: str, key: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found < _MOST:
        raise ResultError(f"result {name}: {key}={value[:40]} is not a number of microseconds")
    return found
