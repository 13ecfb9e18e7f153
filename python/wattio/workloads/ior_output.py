"""What IOR prints: JSON (lists of lists in 3.x, flat in 4.x) and the text tables.

Both become tests with rows, one row for each access of each iteration, and these become results.
IOR's JSON is often not quite JSON; text may stand around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from wattio.errors import ResultError
from wattio.workloads import ior_text
from wattio.workloads.imported import Imported
from wattio.workloads.ior_text import Report, Row, Run, positive
from wattio.workloads.tolerant_json import count, entries, number, objects, table, text
from wattio.workloads.workload import Operation

POPULATION = (
    "the standard deviations that IOR prints are the population's: divided by n, not by n - 1"
)
STAMPS = "IOR's stamps have a resolution of 1 s and no time zone"

_KIB, _MIB = 1 << 10, 1 << 20
_STAMP = "%a %b %d %H:%M:%S %Y"
_NS = 1_000_000_000
_BYTES_MOST = 1 << 63


def parse(output: str, zone: tzinfo = UTC) -> Imported:
    """Read an output of IOR, JSON or text; its stamps are of `zone`. Raises ResultError."""
    told = next((one for one in objects(output) if "tests" in one), None)
    found = _from_json(told) if told is not None else ior_text.read(output)
    if not any(run.rows for run in found.runs):
        raise ResultError("holds no results of IOR: neither its JSON nor its table")
    rows = sum(len(run.rows) for run in found.runs)
    window = None
    if rows == 1:
        window = (_utc_ns(found.began, zone), _utc_ns(found.finished, zone))
    operations = [
        _operation(run, row, iteration, window, len(found.runs) > 1)
        for run in found.runs
        for row, iteration in zip(run.rows, _iterations(run.rows), strict=True)
    ]
    notes = [STAMPS]
    if any(iteration > 0 for run in found.runs for iteration in _iterations(run.rows)):
        notes.append(POPULATION)
    return Imported("ior", found.version, tuple(operations), tuple(notes))


def _iterations(rows: Sequence[Row]) -> list[int]:
    """The number of each row's iteration: how often its access was there before."""
    seen: dict[str, int] = {}
    numbers = []
    for row in rows:
        numbers.append(seen.get(row.access, 0))
        seen[row.access] = numbers[-1] + 1
    return numbers


def _operation(
    run: Run,
    row: Row,
    iteration: int,
    window: tuple[int | None, int | None] | None,
    several: bool,
) -> Operation:
    phase = f"test {run.number} {row.access}" if several else row.access
    if any(number > 0 for number in _iterations(run.rows)):
        phase += f" {iteration + 1}"
    moves = row.access in ("write", "read")
    total = _bytes(run, row) if moves else None
    transfer = round(row.transfer_kib * _KIB) if row.transfer_kib else 0
    operations = total // transfer if total is not None and transfer else None
    iops = row.iops
    if operations is not None and row.seconds:
        # IOR's own leaves out the time of opening and closing, which its throughput counts.
        iops = operations / row.seconds
    start, end = window or (None, None)
    return Operation(
        operation=row.access,
        phase=phase,
        seconds=row.seconds,
        bytes=total,
        operations=operations,
        throughput_mib_s=row.mib_s,
        iops=iops,
        start_utc_ns=start,
        end_utc_ns=end if start is not None and end is not None and end >= start else None,
        doubts=_doubts(run, row),
    )


def _bytes(run: Run, row: Row) -> int | None:
    """What all tasks moved; None where IOR stopped at a time and does not say how far it came."""
    if run.stonewall or None in (run.tasks, run.segments, row.block_kib):
        return None
    assert run.tasks is not None
    assert run.segments is not None
    assert row.block_kib is not None
    moved = round(row.block_kib * _KIB) * run.segments * run.tasks
    return moved if moved < _BYTES_MOST else None


def _doubts(run: Run, row: Row) -> tuple[str, ...]:
    doubts = []
    accesses = {one.access for one in run.rows}
    if row.access == "read" and "write" in accesses:
        if run.shifted is False:
            doubts.append(
                "each task read what it had written itself (no -C): it may come from its cache"
            )
        elif run.nodes == 1:
            doubts.append("all tasks ran on one node: what is read may come from its cache")
    if row.access == "write" and run.synced is False:
        doubts.append("written without -e (fsync): part of it may have stayed in memory")
    if run.stonewall and row.access in ("write", "read"):
        doubts.append("a stonewall was set: IOR does not tell how much was moved")
    return tuple(doubts)


def _utc_ns(stamp: str | None, zone: tzinfo) -> int | None:
    if stamp is None:
        return None
    try:
        moment = datetime.strptime(stamp.strip(), _STAMP).replace(tzinfo=zone)
        return round(moment.timestamp()) * _NS
    except (ValueError, OverflowError):
        return None


def _from_json(told: Mapping[str, Any]) -> Report:
    runs = [_run(table(one)) for one in entries(told.get("tests"))]
    return Report(
        text(told.get("Version"), "unknown"),
        text(told.get("Began")) or None,
        text(told.get("Finished")) or None,
        runs,
    )


def _run(told: Mapping[str, Any]) -> Run:
    parameters, options = table(told.get("Parameters")), table(told.get("Options"))
    shifts = [count(parameters.get(key)) for key in ("reorderTasks", "reorderTasksRandom")]
    synced = count(parameters.get("fsync"))
    return Run(
        number=count(told.get("TestID")) or 0,
        tasks=count(options.get("tasks")),
        nodes=count(options.get("nodes")),
        segments=count(parameters.get("segmentCount")),
        shifted=any(shifts) if None not in shifts else None,
        synced=bool(synced) if synced is not None else None,
        stonewall=bool(count(parameters.get("deadlineForStonewall"))),
        rows=[row for one in _flat(told.get("Results")) if (row := _row(one)) is not None],
    )


def _flat(results: object) -> list[Mapping[str, Any]]:
    """The rows of all iterations, whichever layout they are in."""
    rows: list[Mapping[str, Any]] = []
    for one in entries(results):
        rows += [table(inner) for inner in one] if isinstance(one, list) else [table(one)]
    return rows


def _row(told: Mapping[str, Any]) -> Row | None:
    access = text(told.get("access"))
    if not re.fullmatch(r"[a-z]{1,20}", access):
        return None
    return Row(
        access,
        seconds=positive(number(told.get("totalTime"))),
        mib_s=positive(number(told.get("bwMiB"))),
        iops=positive(number(told.get("iops"))),
        block_kib=positive(number(told.get("blockKiB"))),
        transfer_kib=positive(number(told.get("xferKiB"))),
    )
