"""Files that a sampling process leaves: a file of records for each meter, and events as JSON lines.

A folder holds `sources.json` (labels, names, files, facts), `<number>.samples` and `events.jsonl`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattio.clock import Instant
from wattio.errors import ResultError
from wattio.files.whole import write_whole
from wattio.meters.meter import Facts
from wattio.meters.name import public_name
from wattio.meters.samples import Samples, read_file

EVENTS = "events.jsonl"
SOURCES = "sources.json"
# The native sampler adds to the same files.
_BEGIN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC


@dataclass(frozen=True)
class Event:
    """Something that happened to a meter, or to the clock while it was read.

    Kinds are "lost" (it does not answer, or what it says cannot be true), "back" (it answers
    again), "refused" (it will not serve; it is not asked again), "silent" (a reading takes long),
    "missed" (readings that were due and were not taken in time), "bad" (readings that cannot be
    used; the meter goes on), "disorder" (readings older than the one before, which are left out),
    "clock" (the wall clock was set) and "ended" (the sampling process is gone).
    """

    label: str
    at: Instant
    kind: str
    text: str


class RecordFile:
    """A file of records that grows; what is added is in it after `flush`."""

    def __init__(self, path: Path, *, at_once: bool = True) -> None:
        """Begin the file; `at_once` flushes after every record."""
        self.path = path
        self.at_once = at_once
        self._file = os.open(path, _BEGIN, 0o644)
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []

    def add(self, record: bytes) -> None:
        """Append a record."""
        # A list's append needs no lock; `flush` takes the whole list away.
        self._waiting.append(record)
        if self.at_once:
            self.flush()

    def flush(self) -> None:
        """Write what was added."""
        with self._lock:
            count = len(self._waiting)
            content = memoryview(b"".join(self._waiting[:count]))
            whole = os.lseek(self._file, 0, os.SEEK_END)
            try:
                while content:
                    content = content[os.write(self._file, content) :]
            except OSError as error:
                # All of it waits still and is written again: half a record would shift the rest.
                os.ftruncate(self._file, whole)
                os.lseek(self._file, whole, os.SEEK_SET)
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            del self._waiting[:count]


class EventLog:
    """The file of events."""

    def __init__(self, path: Path) -> None:
        """Begin the file."""
        self._file = os.open(path, _BEGIN, 0o644)

    def add(self, event: Event) -> None:
        """Append an event, in one write."""
        os.write(self._file, (json.dumps(asdict(event)) + "\n").encode())


def read_events(path: Path) -> list[Event]:
    """The events in a file, in order; what is no event, such as a torn last line, is left out."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    return [event for line in lines if (event := _event(line)) is not None]


def _event(line: bytes) -> Event | None:
    try:
        entry = json.loads(line)
        utc_ns, monotonic_ns = map(int, entry["at"])
        at = Instant(utc_ns, monotonic_ns)
        return Event(str(entry["label"]), at, str(entry["kind"]), str(entry["text"]))
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def write_sources(folder: Path, names: Mapping[str, str], facts: Mapping[str, Facts]) -> None:
    """Say which meter each file belongs to."""
    entries = [
        {
            "label": label,
            "name": public_name(name),
            "file": samples_name(n),
            "facts": asdict(facts[label]),
        }
        for n, (label, name) in enumerate(names.items())
    ]
    write_whole(folder / SOURCES, json.dumps(entries, indent=2) + "\n")


def read_folder(folder: Path) -> dict[str, Samples]:
    """Everything that was recorded in a folder, by label, even by a process that was killed.

    Raises ResultError where it holds no recording.
    """
    path = folder / SOURCES
    try:
        entries: Sequence[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        files = {str(entry["label"]): folder / Path(entry["file"]).name for entry in entries}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"{path}: is not a list of recorded meters: {error}") from error
    return {label: read_file(file) for label, file in files.items()}


def samples_name(number: int) -> str:
    """Name of the file of a source."""
    return f"{number}.samples"
