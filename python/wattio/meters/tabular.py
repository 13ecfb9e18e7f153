"""Recorded power: `csv:FILE`, `parquet:FILE`.

A file that another program still writes is followed: each new line is a reading, under the file's
own stamps. `?replay=fast` gives what is there at once, `?replay=real` at the pace at which it was
recorded, under stamps of now. `load` reads a whole file, to be merged with a result afterwards.

Columns are found by the names that loggers use; `?time=ts&power=W&unit=mW`, `?energy=count&unit=Wh`
or `?volts=CH1&amperes=CH2` name them. A log of samples by PTDaemon (MLPerf's spl.txt) is read, too.
A time is ISO 8601 (UTC where no zone stands, or that of `?zone=`), or seconds, ms, us, ns since
1970, or seconds since `?start=2026-01-31T12:00:00Z`. A file of several meters, as wattio writes it,
needs `?meter=LABEL`.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import BinaryIO

from wattio import clock
from wattio.clock import Instant
from wattio.errors import InputError, ResultError
from wattio.files.named import open_file
from wattio.meters import parquet
from wattio.meters.columns import Row
from wattio.meters.lines import BadRow, Lines
from wattio.meters.meter import (
    BadReading,
    Facts,
    FoundMeter,
    Meter,
    MeterLost,
    MeterRefused,
    Reading,
)
from wattio.meters.name import Name, parse
from wattio.meters.sample import POWER_W_MAX
from wattio.meters.samples import Samples

SCHEME = "csv"
FORM = (
    "csv:FILE or parquet:FILE, with ?time=, power= or energy= or volts= and amperes=, unit=,"
    " decimal=, zone=, start=, replay="
)

_KEYS = (
    "time",
    "power",
    "volts",
    "amperes",
    "energy",
    "unit",
    "decimal",
    "zone",
    "start",
    "replay",
    "timeout",
    "meter",
)
_REPLAYS = ("fast", "real")
_POLL_S = 0.02
_TIMEOUT_S = 10.0


def find() -> list[FoundMeter]:
    """None: files are named by who knows them."""
    return []


def open_meter(name: str) -> Meter:
    """Open a file to be followed or replayed. Raises InputError, which names file and line."""
    parts = named(name)
    replay = parts.query.get("replay", "fast" if is_parquet(name) else None)
    if replay is None:
        return FollowedFile(parts)
    return Replayed(parts, _readings(parts, name), real=replay == "real")


def load(name: str) -> Samples:
    """All samples of a file, under its own stamps. Raises InputError, which names file and line.

    `name` is that of a meter. Where the file has no monotonic stamps they are put there by today's
    offset of the clocks.
    """
    parts = named(name)
    if is_parquet(name):
        return Samples.of(sorted(_parquet_readings(parts), key=lambda it: it.utc_ns))
    conversion = Conversion(clock.now())
    rows = sorted(_CsvRows(parts), key=lambda row: row.time_ns)
    return Samples.of([conversion.of(row) for row in rows])


def is_parquet(name: str) -> bool:
    """Whether a name is that of a file which wattio wrote."""
    return name.startswith("parquet:")


def named(name: str) -> Name:
    """The parts of a file's name. Raises InputError."""
    from wattio.files.document import nearest

    parts = parse(name)
    parts.allow(_KEYS)
    replay = parts.query.get("replay", "fast")
    if replay not in _REPLAYS:
        raise parts.error(f'replay "{replay}" is not known; {nearest(replay, _REPLAYS)}')
    if not parts.path:
        raise parts.missing("file", FORM)
    return parts


def _readings(parts: Name, name: str) -> Iterator[Reading]:
    if is_parquet(name):
        return _parquet_readings(parts)
    # Not a generator: the next row may be asked for after one that raised.
    return map(Conversion(clock.now()).of, _CsvRows(parts))


class FollowedFile:
    """A text file that another program writes."""

    def __init__(self, parts: Name) -> None:
        """Open it and read its header. Raises InputError."""
        self._parts = parts
        self._timeout_s = parts.seconds("timeout", _TIMEOUT_S)
        self._closed = threading.Event()
        self._readings = Conversion(clock.now())
        self._file = opened(parts)
        try:
            self._lines = Lines(parts, self._file)
            self._first = self._lines.last_row()
        except InputError:
            self._file.close()
            raise
        times_ns, counts = _first_rows(parts)
        what = f"lines added to {parts.path}"
        self._facts = facts_of(parts, what, typical_period_s(times_ns), counts=counts)

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def read(self) -> Reading:
        """The next line that is added; first the last one, where it is new.

        Raises BadReading for a line that cannot be read or believed, MeterLost.
        """
        row, self._first = self._first, None
        if row is not None and clock.now().utc_ns - row.time_ns < self._timeout_s * 1e9:
            return self._readings.of(row)
        deadline_s = time.monotonic() + self._timeout_s
        while not self._closed.is_set():
            try:
                row = self._lines.next_row()
                if row is not None:
                    return self._readings.of(row)
                self._look_for_cut()
            except BadRow as error:
                raise BadReading(str(error)) from None
            except (OSError, ValueError) as error:
                raise MeterLost(str(error)) from None
            if time.monotonic() > deadline_s:
                raise MeterLost(f"{self._parts.path}: no new line within {self._timeout_s:g} s")
            self._closed.wait(_POLL_S)
        raise MeterLost(f"{self._parts.shown}: is closed")

    def close(self) -> None:
        """Let go of the file."""
        self._closed.set()
        self._file.close()

    def _look_for_cut(self) -> None:
        """Raise MeterLost where the file was cut, or another one has its name."""
        there = Path(self._parts.path).stat()
        if there.st_size < self._file.tell() or not _same(there.st_ino, self._file):
            raise MeterLost(f"{self._parts.path}: was truncated or replaced")


class Replayed:
    """Readings that are there already."""

    def __init__(self, parts: Name, readings: Iterator[Reading], *, real: bool) -> None:
        """`real` gives them at the pace of their stamps, under stamps of now. Raises InputError."""
        first = list(islice(readings, 100))
        if not first:
            raise parts.error("the file has no samples")
        period_s = typical_period_s([reading.utc_ns for reading in first])
        what = f"samples of {parts.path}, replayed"
        counts = any(reading.energy_j is not None for reading in first)
        self._facts = facts_of(parts, what, period_s, counts=counts)
        self._parts = parts
        self._first = first
        self._rest = readings
        self._at = 0
        self._shift: tuple[int, Instant] | None = None
        self._real = real
        self._closed = threading.Event()

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def read(self) -> Reading:
        """The next sample. Raises MeterRefused at the end, BadReading for what cannot be read."""
        reading = self._next()
        if not self._real:
            return reading
        if self._shift is None:
            self._shift = (reading.utc_ns, clock.now())
        first_ns, began = self._shift
        since_ns = reading.utc_ns - first_ns
        due_ns = began.monotonic_ns + since_ns
        if self._closed.wait(max(0, due_ns - time.monotonic_ns()) / 1e9):
            raise MeterLost(f"{self._parts.shown}: is closed")
        return reading._replace(utc_ns=began.utc_ns + since_ns, monotonic_ns=due_ns)

    def close(self) -> None:
        """Let go of the file."""
        self._closed.set()

    def _next(self) -> Reading:
        if self._at < len(self._first):
            self._at += 1
            return self._first[self._at - 1]
        try:
            found = next(self._rest, None)
        except InputError as error:
            raise BadReading(str(error)) from None
        if found is None:
            raise MeterRefused(f"{self._parts.shown}: the recording has ended")
        return found


class _CsvRows:
    """Rows of a text file; one that cannot be used raises InputError, and is over."""

    def __init__(self, parts: Name) -> None:
        self._file = opened(parts)
        self._lines = Lines(parts, self._file)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        if self._file.closed:
            raise StopIteration
        row = self._lines.next_row()
        if row is None:
            self._lines.finish()
            row = self._lines.next_row()
        if row is None:
            self._file.close()
            raise StopIteration
        return row


def _parquet_readings(parts: Name) -> Iterator[Reading]:
    """Rows of a meter in a file that wattio wrote."""
    recorded = parquet_meters(parts)
    if len(recorded) > 1:
        raise parts.error(
            f"holds {len(recorded)} meters; name one of {', '.join(recorded)} with ?meter="
        )
    for samples in recorded.values():
        yield from samples.readings()


def parquet_meters(parts: Name) -> dict[str, Samples]:
    """What a file that wattio wrote holds, or the one meter of it that the name asks for."""
    from wattio.files.document import nearest

    path = Path(parts.path)
    if not path.is_file():
        raise InputError(f"{path}: not found")
    try:
        recorded = parquet.read(path)
    except ResultError as error:
        raise InputError(str(error)) from None
    label = parts.query.get("meter")
    if label is None:
        return recorded
    if label not in recorded:
        raise parts.error(f'holds no meter "{label}"; {nearest(label, list(recorded))}')
    return {label: recorded[label]}


class Conversion:
    """Rows of one meter as readings: by an offset of the clocks, and with the power of counts."""

    def __init__(self, offset: Instant) -> None:
        """`offset` is one moment on both clocks."""
        self._to_monotonic_ns = offset.monotonic_ns - offset.utc_ns
        self._counted: tuple[int, float] | None = None

    def of(self, row: Row) -> Reading:
        """The next row; counts without power have their mean since the row before."""
        power_w = row.power_w
        if row.energy_j is not None:
            if power_w is None and self._counted is not None:
                power_w = _mean_w(*self._counted, row.time_ns, row.energy_j)
            self._counted = row.time_ns, row.energy_j
        return Reading(row.time_ns, row.time_ns + self._to_monotonic_ns, power_w, row.energy_j)


def _mean_w(old_ns: int, old_j: float, new_ns: int, new_j: float) -> float | None:
    """Mean power between two counts, as meters that count tell it; None if they fell."""
    seconds, grown_j = (new_ns - old_ns) / 1e9, new_j - old_j
    if seconds <= 0 or not 0 <= grown_j <= POWER_W_MAX * seconds:
        return None
    return grown_j / seconds


def opened(parts: Name) -> BinaryIO:
    """The file of a name. Raises InputError."""
    try:
        return open_file(Path(parts.path))
    except OSError as error:
        raise InputError(f"{parts.path}: cannot be read: {error.strerror}") from None


def _same(inode: int, file: BinaryIO) -> bool:
    return os.fstat(file.fileno()).st_ino == inode


def _first_rows(parts: Name) -> tuple[list[int], bool]:
    """Times of the first rows, and whether energy is counted in them."""
    with opened(parts) as file:
        rows = list(islice(Lines(parts, file).readable_rows(), 100))
    return [row.time_ns for row in rows], any(row.energy_j is not None for row in rows)


def typical_period_s(times_ns: Sequence[int]) -> float:
    """The median step between samples; a second where there are too few."""
    steps = [(b - a) / 1e9 for a, b in pairwise(times_ns)]
    return max(statistics.median(steps), 1e-6) if steps else 1.0


def facts_of(parts: Name, what: str, period_s: float, *, counts: bool) -> Facts:
    """Facts of a file."""
    return Facts(
        name=parts.shown,
        what=what,
        period_s=period_s,
        accuracy_class="that of the meter it was recorded from",
        streams=True,
        counts_energy=counts,
    )
