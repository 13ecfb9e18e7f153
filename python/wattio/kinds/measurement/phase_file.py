"""Files that say when phases were: a table of names, starts and ends; or MLPerf's log.

The table is text with a header: a column of names (`phase`, `name`), of starts (`start`, `begin`)
and of ends (`end`, `stop`), with times as recorded power has them. MLPerf's `mlperf_log_detail.txt`
says `power_begin` and `power_end`, each with the time of the load generator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from wattio.errors import InputError
from wattio.files.document import text_of
from wattio.meters import columns, spl

_NAMES = ("phase", "name", "label", "mark")
_STARTS = ("start", "begin", "from", "start_utc", "begin_utc")
_ENDS = ("end", "stop", "finish", "to", "end_utc")
_MLPERF = re.compile(r"power_(begin|end)\b.*?(\d{2}-\d{2}-\d{4} \d{2}:\d{2}:\d{2}\.\d+)")


@dataclass(frozen=True)
class Phase:
    """A named stretch, in ns since 1970 where it is `absolute`, else since a recording's start."""

    name: str
    start_ns: int
    end_ns: int
    absolute: bool = True


def read(path: Path, zone: tzinfo) -> list[Phase]:
    """The phases of a file; `zone` is that of times that have none. InputError, with the line."""
    lines = text_of(path).splitlines()
    is_mlperf = any(_MLPERF.search(line) for line in lines)
    found: list[Phase] = []
    for number, phase in (_of_mlperf if is_mlperf else _of_table)(path, lines, zone):
        if phase.end_ns == phase.start_ns:
            raise InputError(f'{path}:{number}: phase "{phase.name}" ends when it starts')
        if phase.end_ns < phase.start_ns:
            raise InputError(f'{path}:{number}: phase "{phase.name}" ends before it starts')
        if phase.name in {other.name for other in found}:
            raise InputError(f'{path}:{number}: phase "{phase.name}" is named twice')
        found.append(phase)
    if not found:
        raise InputError(f"{path}: has no phases")
    return found


def _of_mlperf(path: Path, lines: list[str], zone: tzinfo) -> Iterator[tuple[int, Phase]]:
    """From each begin to the end that follows it."""
    begun: int | None = None
    count = 0
    for number, line in enumerate(lines, start=1):
        match = _MLPERF.search(line)
        if match is None:
            continue
        try:
            time_ns = spl.parse_time(match[2], zone)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        if match[1] == "begin":
            begun = time_ns
        elif begun is None:
            raise InputError(f"{path}:{number}: power_end without a power_begin")
        else:
            count += 1
            yield number, Phase("power" if count == 1 else f"power {count}", begun, time_ns)
            begun = None
    if begun is not None:
        raise InputError(f"{path}: a power_begin has no power_end")


def _of_table(path: Path, lines: list[str], zone: tzinfo) -> Iterator[tuple[int, Phase]]:
    """Line by line."""
    rows = ((at, line) for at, line in enumerate(lines, start=1) if not columns.is_comment(line))
    number, header = next(rows, (1, ""))
    delimiter = max(columns.DELIMITERS, key=header.count)
    names = [name.lower() for name in columns.split(header.lstrip("\ufeff"), delimiter)]
    places = [
        next((names.index(name) for name in known if name in names), None)
        for known in (_NAMES, _STARTS, _ENDS)
    ]
    called, start, end = places
    if start is None or end is None:
        raise InputError(
            f"{path}:{number}: the header needs columns start and end, and may have one phase;"
            f" columns: {', '.join(names)}"
        )
    for count, (at, line) in enumerate(rows, start=1):
        fields = columns.split(line, delimiter)
        try:
            start_ns, absolute = columns.parse_time(columns.field_of(fields, start), zone)
            end_ns, also = columns.parse_time(columns.field_of(fields, end), zone)
            name = columns.field_of(fields, called) if called is not None else ""
        except ValueError as error:
            raise InputError(f"{path}:{at}: {error}") from None
        if absolute != also:
            raise InputError(f"{path}:{at}: one of its times counts from 1970, the other does not")
        yield at, Phase(name or f"phase {count}", start_ns, end_ns, absolute)
