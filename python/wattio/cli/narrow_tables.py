"""Tables on a terminal that is too narrow for them: nothing is left out, and words stay whole.

Columns that do not fit beside each other come in parts, one below the other, each with the columns
that say what its rows are; where there is no room for that, each row is a list of its own.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

_WHOLE = 20
"""Cells of up to so many characters stay in one line; longer ones are broken between words."""

_KEYS = 2
"""At most so many columns say what a row is: those before the first figure."""


_WIDE = 100_000
"""Where everything has room."""


class _Room(NamedTuple):
    """What a column needs at least, and what it takes where there is plenty."""

    least: int
    most: int


def fitted(console: Console, options: ConsoleOptions, table: Table) -> list[RenderableType]:
    """A table as parts that fit the console; as it is where all of it does."""
    width = options.max_width
    wide = options.update(width=_WIDE)
    if table.expand or Measurement.get(console, wide, table).maximum <= width:
        return [table]
    rooms = [_room(console, wide, column) for column in table.columns]
    padding = table.padding[1] + table.padding[3] + (1 if table.box else 0)
    free = width - (1 if table.box else 0)
    keys = _keys(table.columns)
    # What is too wide by itself is broken anyway.
    others = [room.least + padding for room in rooms[len(keys) :]]
    widest = min(free // 2, max(others, default=0))
    if len(keys) > 1 and _taken(rooms, keys, padding) + widest > free and _tells(table.columns[0]):
        keys.pop()
    if len(rooms) > len(keys) + 1 and _taken(rooms, keys, padding) + widest > free:
        return fitted(console, options, _listed(table))
    parts: list[RenderableType] = []
    for columns in _packed(rooms, keys, padding, free):
        widths = _widths([rooms[at] for at in columns], padding, free)
        parts += (
            [Text(), _part(table, columns, widths)]
            if parts
            else [_part(table, columns, widths, title=True)]
        )
    return parts


def _room(console: Console, options: ConsoleOptions, column: Column) -> _Room:
    cells = [Measurement.get(console, options, cell) for cell in column.cells]
    header = Measurement.get(console, options, column.header)
    kept = (one.maximum if column.no_wrap else min(one.maximum, _WHOLE) for one in cells)
    least = max([header.minimum, *(one.minimum for one in cells), *kept])
    return _Room(least, max([least, header.maximum, *(one.maximum for one in cells)]))


def _keys(columns: Sequence[Column]) -> list[int]:
    figures = (at for at, column in enumerate(columns) if column.justify == "right")
    # A column of marks has no name, and says of no row what it is: the column after it does.
    named = next((at for at, column in enumerate(columns) if column.header != ""), 0)
    first = next(figures, named + 1)
    return list(range(max(1, min(first, _KEYS))))


def _tells(column: Column) -> bool:
    """Whether it says what each row is, rather than what the first of several is, or a mark."""
    return column.header != "" and all(cell != "" for cell in column.cells)


def _taken(rooms: Sequence[_Room], columns: Sequence[int], padding: int) -> int:
    return sum(rooms[at].least + padding for at in columns)


def _packed(
    rooms: Sequence[_Room], keys: list[int], padding: int, free: int
) -> Iterator[list[int]]:
    """The columns of each part: its keys, and the others that have room beside them."""
    part = list(keys)
    for at in range(len(keys), len(rooms)):
        if len(part) > len(keys) and _taken(rooms, [*part, at], padding) > free:
            yield part
            part = list(keys)
        part.append(at)
    yield part


def _widths(rooms: Sequence[_Room], padding: int, free: int) -> list[int]:
    """Widths of the columns of a part: what each needs, and the rest for those that want more."""
    widths = [room.least for room in rooms]
    left = free - sum(widths) - padding * len(widths)
    for at, room in enumerate(rooms):
        more = max(0, min(left, room.most - room.least))
        widths[at] += more
        left -= more
    # What is too long by itself, as a path, is broken; the longest column gives way.
    while left < 0 and max(widths) > 1:
        widest = widths.index(max(widths))
        widths[widest] -= 1
        left += 1
    return widths


def _part(
    table: Table, columns: Sequence[int], widths: Sequence[int], *, title: bool = False
) -> Table:
    part = copy.copy(table)
    part.columns = [
        dataclasses.replace(table.columns[at], _index=number, width=width, overflow="fold")
        for number, (at, width) in enumerate(zip(columns, widths, strict=True))
    ]
    part.title = table.title if title else None
    return part


def _listed(table: Table) -> Table:
    """Each row as lines of what a column is and what it has there."""
    listed = Table(title=table.title, title_justify="left", box=None, show_header=False)
    for number in range(table.row_count):
        if number:
            listed.add_row("", "")
        for column in table.columns:
            cell = list(column.cells)[number]
            if cell != "":
                listed.add_row(column.header, cell)
    return listed
