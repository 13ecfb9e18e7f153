"""fio's latency logs (`write_lat_log`): percentiles of each direction, whole and by windows.

A line is `time in ms, latency in ns, direction, block size`, with offset and priority behind where
they were asked for. Read by DuckDB, which takes some 100 MB a second; sorting is NumPy's.
"""

from __future__ import annotations

import glob
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattio.errors import InputError
from wattio.workloads.fio_latency import PERCENTILES
from wattio.workloads.imported import Imported
from wattio.workloads.workload import Operation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIRECTIONS = ("read", "write", "trim", "sync")
NANOSECONDS = "latencies are taken as nanoseconds, as fio 3 writes them; fio 2 wrote microseconds"
WINDOWS_MOST = 1_000_000

_WANTED = 'wanted is "time in ms, latency in ns, direction, block size"'
_NAMES = ("time_ms", "latency_ns", "direction", "bytes")
_COLUMNS_MOST = 8
_EPOCH_LEAST_MS = 10**12
_STAMP_MOST_MS = 2**63 // 10**6
_AVERAGED_GAP_MS = 100
_HEAD_BYTES = 4096
_MIB = 1 << 20


@dataclass(frozen=True)
class Log:
    """The columns of a log, one value for each entry."""

    time_ms: NDArray[np.uint64]
    latency_ns: NDArray[np.uint64]
    direction: NDArray[np.uint8]
    bytes: NDArray[np.uint64]


@dataclass(frozen=True)
class Window:
    """The latencies of one direction in one stretch of time, from the log's first entry on."""

    operation: str
    start_s: float
    operations: int
    latency_us: dict[str, float]


def read(path: Path) -> Log:
    """Read a log. Raises InputError: unreadable, empty, or a line that is none of a log."""
    import duckdb

    columns = _columns(path)
    told = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    query = (
        f"SELECT {', '.join(_NAMES)} FROM read_csv($file, columns={{{told}}}, auto_detect=false,"  # noqa: S608
        " header=false, delim=',', quote='', escape='', comment='', compression='none')"
    )
    try:
        with duckdb.connect() as connection:
            found = connection.execute(query, {"file": glob.escape(str(path))}).fetchnumpy()
    except duckdb.Error as error:
        raise InputError(_refusal(path, str(error))) from None
    import numpy as np

    if any(isinstance(found[name], np.ma.MaskedArray) for name in _NAMES):
        raise InputError(f"{path}: an entry has empty fields; {_WANTED}")
    return Log(*(found[name] for name in _NAMES))


def summary(path: Path, log: Log) -> Imported:
    """Each direction as one operation. Raises InputError for a direction that fio has not."""
    operations = tuple(
        _operation(DIRECTIONS[number], log, chosen) for number, chosen in _directions(path, log)
    )
    return Imported("fio-log", "unknown", operations, (NANOSECONDS,))


def windows(path: Path, log: Log, window_s: float) -> list[Window]:
    """The percentiles of each window in which something happened, direction by direction.

    Raises InputError where there would be more than a million windows.
    """
    import numpy as np

    first_ms, last_ms = int(log.time_ms.min()), int(log.time_ms.max())
    if (last_ms - first_ms) / 1e3 / window_s >= WINDOWS_MOST:
        raise InputError(
            f"--window: {window_s:g} s would divide {(last_ms - first_ms) / 1e3:g} s into more than"
            f" {WINDOWS_MOST:,} windows; give a longer one"
        )
    found = []
    for number, chosen in _directions(path, log):
        index = ((log.time_ms[chosen] - np.uint64(first_ms)) / (window_s * 1e3)).astype(np.int64)
        latency = log.latency_ns[chosen]
        order = np.lexsort((latency, index))
        ordered = latency[order]
        numbers, starts = np.unique(index[order], return_index=True)
        ends = np.append(starts[1:], order.size)
        found += [
            Window(
                DIRECTIONS[number],
                float(which * window_s),
                int(end - start),
                _of_sorted(ordered[start:end]),
            )
            for which, start, end in zip(numbers, starts, ends, strict=True)
        ]
    return found


def _columns(path: Path) -> dict[str, str]:
    """Names and types of the columns, whose number is the first line's."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path!s}: is not a valid path: {error}") from error
    if not head.strip():
        raise InputError(f"{path}: is empty")
    fields = head.split(b"\n", 1)[0].count(b",") + 1
    if not len(_NAMES) <= fields <= _COLUMNS_MOST:
        raise InputError(f"{path}:1: {fields} fields; {_WANTED}")
    kinds = ["UBIGINT", "UBIGINT", "UTINYINT", "UBIGINT"]
    columns = dict(zip(_NAMES, kinds, strict=True))
    return columns | {f"more_{number}": "VARCHAR" for number in range(fields - len(_NAMES))}


def _refusal(path: Path, message: str) -> str:
    """DuckDB's many lines as one."""
    line = re.search(r"CSV Error on Line: (\d+)", message)
    given = re.search(r"Original Line:\s*(.{0,80})", message)
    where = f"{path}:{line[1]}" if line else f"{path}"
    shown = (
        f" {given[1].strip()!r} is not an entry of a latency log;" if given else " cannot be read;"
    )
    return f"{where}:{shown} {_WANTED}"


def _directions(path: Path, log: Log) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    import numpy as np

    for number in np.unique(log.direction).tolist():
        if number >= len(DIRECTIONS):
            raise InputError(f"{path}: direction {number} is not known; {_WANTED}")
        yield number, log.direction == number


def _operation(name: str, log: Log, chosen: NDArray[np.bool_]) -> Operation:
    time_ms = log.time_ms[chosen]
    operations = int(chosen.sum())
    first_ms, last_ms = int(time_ms.min()), int(time_ms.max())
    seconds = (last_ms - first_ms) / 1e3
    moved = int(log.bytes[chosen].sum(dtype="f8"))
    stamped = first_ms >= _EPOCH_LEAST_MS and last_ms < _STAMP_MOST_MS
    return Operation(
        operation=name,
        phase="log",
        seconds=seconds or None,
        bytes=moved,
        operations=operations,
        throughput_mib_s=moved / _MIB / seconds if seconds else None,
        iops=operations / seconds if seconds else None,
        latency_us=_latency_us(log.latency_ns[chosen]),
        start_utc_ns=first_ms * 10**6 if stamped else None,
        end_utc_ns=last_ms * 10**6 if stamped else None,
        doubts=_doubts(time_ms),
    )


def _latency_us(latency_ns: NDArray[np.uint64]) -> dict[str, float]:
    """Mean, extremes and percentiles, without sorting more than they need."""
    import numpy as np

    ranks = _ranks(latency_ns.size)
    parted = np.partition(latency_ns, [0, *ranks.values(), latency_ns.size - 1])
    return _told(latency_ns, parted, ranks)


def _of_sorted(latency_ns: NDArray[np.uint64]) -> dict[str, float]:
    return _told(latency_ns, latency_ns, _ranks(latency_ns.size))


def _told(
    latency_ns: NDArray[np.uint64], placed: NDArray[np.uint64], ranks: dict[str, int]
) -> dict[str, float]:
    return {
        "mean": float(latency_ns.mean(dtype="f8")) / 1e3,
        "min": float(placed[0]) / 1e3,
        "max": float(placed[-1]) / 1e3,
        **{name: float(placed[rank]) / 1e3 for name, rank in ranks.items()},
    }


def _ranks(count: int) -> dict[str, int]:
    """Where the smallest value lies that at least the share of each percentile do not exceed."""
    from wattio.analysis.histogram import meant

    told = meant(PERCENTILES, count).items()
    return {name: max(1, math.ceil(share * count)) - 1 for name, share in told}


def _doubts(time_ms: NDArray[np.uint64]) -> tuple[str, ...]:
    """Whether entries come at equal, long distances, as averages do."""
    import numpy as np

    gaps = np.diff(np.sort(time_ms)).astype(np.float64) if time_ms.size > 3 else np.empty(0)
    middle = float(np.median(gaps)) if gaps.size else 0.0
    if middle < _AVERAGED_GAP_MS or np.mean(np.abs(gaps - middle) <= 0.1 * middle) < 0.9:
        return ()
    return (
        f"entries come every {middle:.0f} ms: if log_avg_msec was set they are averages, and so are"
        " these percentiles, and the numbers of operations and bytes are too low",
    )
