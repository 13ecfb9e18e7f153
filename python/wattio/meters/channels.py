"""A recorded file as a whole: every meter in it, on the file's own clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from wattio.clock import Instant
from wattio.errors import InputError
from wattio.meters.columns import Row
from wattio.meters.lines import BadRow, Lines
from wattio.meters.meter import Facts
from wattio.meters.name import Name
from wattio.meters.samples import Samples
from wattio.meters.tabular import (
    Conversion,
    facts_of,
    is_parquet,
    named,
    opened,
    parquet_meters,
    typical_period_s,
)


@dataclass(frozen=True)
class Channel:
    """What a file has of one meter, on the file's own clock: both stamps are the same.

    `absolute` says that it counts from 1970; `marks` are the stretches that the program which wrote
    it gave a name, each with the times of its first and last sample in ns. Of rows with one time
    the first is a sample; `repeated` is how many others there were.
    """

    facts: Facts
    samples: Samples
    absolute: bool = True
    marks: tuple[tuple[str, int, int], ...] = ()
    repeated: int = 0


def channels(name: str) -> tuple[dict[str | None, Channel], list[str]]:
    """Every meter in a file by its label (None if it has none), and lines that cannot be read.

    Raises InputError for a file without a sample that can be.
    """
    parts = named(name)
    rows: dict[str | None, list[Row]] = {}
    bad: list[str] = []
    if is_parquet(name):
        for label, samples in parquet_meters(parts).items():
            rows[label] = [Row(r.utc_ns, True, r.power_w, r.energy_j) for r in samples.readings()]
    else:
        with opened(parts) as file:
            for row in _all_rows(Lines(parts, file, every=True), bad):
                rows.setdefault(row.meter, []).append(row)
    if not rows:
        raise InputError(bad[0] if bad else f"{parts.path}: has no samples")
    return {label: _channel(parts, own) for label, own in rows.items()}, bad


def _all_rows(lines: Lines, bad: list[str]) -> Iterator[Row]:
    finished = False
    while True:
        try:
            row = lines.next_row()
        except BadRow as error:
            bad.append(str(error))
            continue
        if row is not None:
            yield row
        elif finished:
            return
        else:
            lines.finish()
            finished = True


def _channel(parts: Name, rows: list[Row]) -> Channel:
    if len({row.absolute for row in rows}) > 1:
        raise parts.error("some times count from 1970, others from an arbitrary start")
    rows = sorted(rows, key=lambda row: row.time_ns)
    marks = []
    for mark, own in groupby(rows, key=lambda row: row.mark):
        times_ns = [row.time_ns for row in own]
        if mark is not None:
            marks.append((mark, times_ns[0], times_ns[-1]))
    # A meter says one thing at a time; a log that was written twice has it twice.
    once = [next(alike) for _, alike in groupby(rows, key=lambda row: row.time_ns)]
    conversion = Conversion(Instant(0, 0))
    samples = Samples.of([conversion.of(row) for row in once])
    counts = any(row.energy_j is not None for row in rows)
    period_s = typical_period_s([row.time_ns for row in once])
    facts = facts_of(parts, f"samples of {parts.path}", period_s, counts=counts)
    repeated = len(rows) - len(once)
    return Channel(facts, samples, rows[0].absolute, tuple(marks), repeated)
