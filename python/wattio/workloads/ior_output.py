"""What IOR prints: its JSON, its CSV (4.x) and the text tables, from 2.10 on.

All become tests with rows, one row for each access of each iteration, and these become results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from wattio.clock import utc_ns_of
from wattio.errors import ResultError
from wattio.files.plain import plain
from wattio.workloads import ior_json, ior_text
from wattio.workloads.imported import Imported
from wattio.workloads.ior_text import Row, Run
from wattio.workloads.workload import Operation

POPULATION = (
    "the standard deviations that IOR prints are the population's: divided by n, not by n - 1"
)
STAMPS = "IOR's stamps have a resolution of 1 s and no time zone"

_KIB, _MIB = 1 << 10, 1 << 20
_STAMP = "%a %b %d %H:%M:%S %Y"
_NS = 1_000_000_000
_BYTES_MOST = 1 << 63

_STAMP_S = 1.0
"""Each of IOR's stamps is cut to whole seconds."""

# A line of JSON begins with a quotation mark, and may hold a path of any name; so may the command.
_FAILED = re.compile(
    r"^(?![ \t]*\")(?!.*command line)(?:.*[\s\[{,])?(?P<words>(?:ior )?ERROR(?::| in\b).*"
    r"|WARNING: incorrect data on .*)$",
    re.MULTILINE | re.IGNORECASE,
)
_SHORT = "Using actual aggregate bytes moved"


def failure(output: str) -> str | None:
    """IOR's own words for what went wrong in a run, whatever its exit code and its rows say."""
    found = _FAILED.search(output)
    return found["words"].strip() if found else None


def parse(output: str, zone: tzinfo | None = UTC) -> Imported:
    """Read an output of IOR in any form; its stamps are of `zone`, or not looked at.

    Raises ResultError.
    """
    if (failed := failure(output)) is not None:
        raise ResultError(f"is from a failed run of IOR: {failed}")
    found = ior_json.read(output) if ior_json.is_json(output) else ior_text.read(output)
    if not any(run.rows for run in found.runs):
        raise ResultError("holds no results of IOR: neither its JSON, its CSV (4.x) nor its table")
    rows = sum(len(run.rows) for run in found.runs)
    window = None
    if rows == 1 and zone is not None:
        window = (_utc_ns(found.began, zone), _utc_ns(found.finished, zone))
    short = _SHORT in output
    operations = [
        _operation(run, row, iteration, window, len(found.runs) > 1, short)
        for run in found.runs
        for row, iteration in zip(run.rows, _iterations(run.rows), strict=True)
    ]
    notes = [STAMPS] if zone is not None else []
    if any(iteration > 0 for run in found.runs for iteration in _iterations(run.rows)):
        notes.append(POPULATION)
    ranks = found.runs[0].tasks
    return Imported("ior", found.version, tuple(operations), tuple(notes), ranks)


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
    short: bool,
) -> Operation:
    phase = f"test {run.number} {row.access}" if several else row.access
    if any(number > 0 for number in _iterations(run.rows)):
        phase += f" {iteration + 1}"
    moves = row.access in ("write", "read")
    total = _bytes(run, row) if moves and not short else None
    transfer = round(row.transfer_kib * _KIB) if row.transfer_kib else 0
    operations = total // transfer if total is not None and transfer else None
    iops = row.iops
    if operations is not None and row.seconds:
        # IOR's own leaves out the time of opening and closing, which its throughput counts.
        iops = operations / row.seconds
    start, end = window or (None, None)
    if start is not None and (end is None or end < start):
        end = None
    doubts = _doubts(run, row)
    if short and moves and not run.stonewall:
        doubts.append(
            "IOR moved a different amount than requested, and counts that: see its warnings"
        )
    if start is not None and end is not None and row.seconds is not None:
        within_s = (end - start) / _NS + _STAMP_S
        doubts.append(
            f"its stamps are whole seconds, of the whole run: its {plain(row.seconds)} s lie"
            f" somewhere within {plain(within_s)} s"
        )
    return Operation(
        operation=row.access,
        phase=phase,
        seconds=row.seconds,
        bytes=total,
        operations=operations,
        throughput_mib_s=row.mib_s,
        iops=iops,
        start_utc_ns=start,
        end_utc_ns=end,
        doubts=tuple(doubts),
    )


def _bytes(run: Run, row: Row) -> int | None:
    """What all tasks moved; None if IOR stopped at a time and does not say how far it came."""
    if run.stonewall:
        return None
    if run.tasks is None or run.segments is None or row.block_kib is None:
        # Older versions tell the sum, a whole number of some unit.
        return None if run.aggregate_bytes is None else run.aggregate_bytes * row.repetitions
    moved = round(row.block_kib * _KIB) * run.segments * run.tasks
    return moved if moved < _BYTES_MOST else None


def _doubts(run: Run, row: Row) -> list[str]:
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
        doubts.append("a stonewall was set: IOR does not report how much was moved")
    return doubts


def _utc_ns(stamp: str | None, zone: tzinfo) -> int | None:
    if stamp is None:
        return None
    try:
        return utc_ns_of(datetime.strptime(stamp.strip(), _STAMP), zone)
    except (ValueError, OverflowError):
        return None
