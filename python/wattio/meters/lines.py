"""Rows of power in a text file that may still grow."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from datetime import tzinfo
from typing import BinaryIO

from wattio.errors import InputError
from wattio.meters import columns, spl
from wattio.meters.columns import Layout, Row
from wattio.meters.meter import BadReading
from wattio.meters.name import Name
from wattio.meters.sample import plausible

_HEADER_LINES = 100
"""Oscilloscopes write their settings above the header; so far down it is looked for."""
_LINE_BYTES_MAX = 65_536
_TAIL_BYTES = 65_536


def power_columns(file: BinaryIO) -> list[str]:
    """Names of the columns that have a unit of power, below whatever stands above the header."""
    for _ in range(_HEADER_LINES):
        read = file.readline(_LINE_BYTES_MAX)
        line = read.decode("utf-8", "replace").rstrip("\n")
        if not read or spl.is_log(line):
            break
        found = [] if columns.is_comment(line) else columns.power_columns(line)
        wanted = columns.ColumnNames(power=found[0] if found else None)
        with contextlib.suppress(ValueError):
            columns.find_layout(line, wanted)
            return found
    return []


class BadRow(InputError):  # noqa: N818 (what happened, not a fault of ours)
    """A row that cannot be read; the ones after it can."""


class Lines:
    """Rows of a text file: its header is read when it is made."""

    def __init__(self, parts: Name, file: BinaryIO, *, every: bool = False) -> None:
        """`file` stands at the header's first line. Raises InputError.

        `every` gives the rows of all meters in it, and times as they are, whatever they count from.
        """
        self.number = 0
        self._parts = parts
        self._file = file
        self._every = every
        self._zone = _zone(parts)
        self._start_ns = _start_ns(parts, self._zone)
        self._commas = _commas(parts)
        self._rest = b""
        self._meter = parts.query.get("meter")
        self._waiting: deque[Row] = deque()
        self._before_ns: dict[str | None, int] = {}
        self._layout = self._find_layout()

    def next_row(self) -> Row | None:
        """The next row that is whole; None if there is none yet.

        Raises BadRow for one that cannot be read, after which the next one may be asked for, and
        InputError where this is no such file.
        """
        while True:
            while self._waiting:
                row = self._waiting.popleft()
                if self._is_wanted(row):
                    return self._absolute(row)
            line = self._next_line()
            if line is None:
                return None
            if columns.is_comment(line):
                continue
            try:
                self._waiting.extend(self._rows(line))
            except (ValueError, BadReading) as error:
                raise BadRow(str(self.error(str(error)))) from None

    def _rows(self, line: str) -> list[Row]:
        """What a line says: a row, or one for each channel. Raises ValueError, BadReading."""
        if self._layout is not None:
            how = self._layout, self._commas, self._zone, self._before_ns
            rows = [columns.parse_row(line, *how)]
        elif spl.is_log(line):
            time_ns, channels, mark = spl.parse(line, self._zone, self._before_ns.get(None))
            self._before_ns[None] = time_ns
            rows = [Row(time_ns, True, w, None, at, mark) for at, w in channels.items()]
        else:
            return []  # The program that wrote the log said something else.
        for row in rows:
            if row.absolute:
                self._before_ns[row.meter] = row.time_ns
            if row.power_w is not None:
                plausible(row.power_w, row.meter or "the meter")
        return rows

    def last_row(self) -> Row | None:
        """The last row that is whole, wherever it stands; what comes before it is passed over.

        So are rows that cannot be read.
        """
        here = self._file.tell()
        end = self._file.seek(0, 2)
        if end - _TAIL_BYTES > here:
            self._file.seek(end - _TAIL_BYTES)
            self._rest = b""
            self._next_line()  # It was cut in two.
        else:
            self._file.seek(here)
        found = None
        for row in self.readable_rows():
            found = row
        return found

    def readable_rows(self) -> Iterator[Row]:
        """The rows that are there and whole, without those that cannot be read."""
        while True:
            try:
                row = self.next_row()
            except BadRow:
                continue
            if row is None:
                return
            yield row

    def error(self, message: str) -> InputError:
        """An InputError that names file and line."""
        return InputError(f"{self._parts.path}:{self.number}: {message}")

    def finish(self) -> None:
        """What stands after the last end of line is a whole line too."""
        if self._rest:
            self._rest += b"\n"

    def _next_line(self) -> str | None:
        while b"\n" not in self._rest:
            chunk = self._file.read(_LINE_BYTES_MAX)
            if not chunk:
                return None
            self._rest += chunk
            if len(self._rest) > 2 * _LINE_BYTES_MAX and b"\n" not in self._rest:
                raise self.error(f"is longer than {_LINE_BYTES_MAX} bytes; is this a text file?")
        line, _, self._rest = self._rest.partition(b"\n")
        self.number += 1
        return line.decode("utf-8", "replace")

    def _find_layout(self) -> Layout | None:
        """The columns of the header; None for a log of samples, which has none."""
        wanted = columns.wanted_of(self._parts.query)
        first: InputError | None = None
        while self.number < _HEADER_LINES:
            line = self._next_line()
            if line is None:
                break
            if columns.is_comment(line):
                continue
            if spl.is_log(line):
                self._rest = f"{line}\n".encode() + self._rest
                self.number -= 1
                return None
            try:
                return columns.find_layout(line, wanted)
            except ValueError as error:
                first = first or self.error(str(error))
        told = "has no header line"
        if not columns.is_text(self._rest.decode("utf-8", "replace")):
            told = "is not text; lines with columns of power are needed"
        raise first or InputError(f"{self._parts.path}: {told}")

    def _is_wanted(self, row: Row) -> bool:
        if self._every and "meter" not in self._parts.query:
            return True
        if self._meter is None:
            self._meter = row.meter
        if row.meter is None or row.meter == self._meter:
            return True
        if "meter" not in self._parts.query:
            raise self.error("the file holds several meters; name one with ?meter=")
        return False

    def _absolute(self, row: Row) -> Row:
        if row.absolute:
            return row
        if self._start_ns is None:
            if self._every:
                return row
            raise self.error(
                "its times count from an arbitrary start; give ?start=2026-01-31T12:00:00Z"
            )
        return row._replace(time_ns=self._start_ns + row.time_ns, absolute=True)


def _commas(parts: Name) -> str | None:
    decimal = parts.query.get("decimal")
    if decimal not in (None, ".", ","):
        raise parts.error(f'decimal "{decimal}" is not known; allowed: . or ,')
    return decimal


def _zone(parts: Name) -> tzinfo:
    try:
        return columns.parse_zone(parts.query.get("zone", "+00:00"))
    except ValueError as error:
        raise parts.error(str(error)) from None


def _start_ns(parts: Name, zone: tzinfo) -> int | None:
    if "start" not in parts.query:
        return None
    try:
        start_ns, absolute = columns.parse_time(parts.query["start"], zone)
    except ValueError as error:
        raise parts.error(f"start: {error}") from None
    if not absolute:
        raise parts.error("start: must be a date and time")
    return start_ns
