"""Recorded samples as one Parquet file.

Its columns are meter, utc_ns, monotonic_ns, power_w, energy_j, mark. Rows are in order of meter as
given, then of time; what is absent is NULL. The same samples give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattio.errors import ResultError, storage_reason
from wattio.files.whole import whole_file
from wattio.meters.samples import COLUMNS, Samples

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

_WHOLE = ("utc_ns", "monotonic_ns")
_SOURCE = """SELECT CAST({meter} AS VARCHAR) AS meter, utc_ns, monotonic_ns, {values}
    FROM {table}"""
_PIECE_ROWS = 1 << 18
_METERS = """SELECT meter, count(*), min(file_row_number) AS first, max(file_row_number),
        count(utc_ns), count(monotonic_ns), count(power_w), count(energy_j), count(mark)
    FROM read_parquet('{path}', file_row_number = true) GROUP BY meter ORDER BY first"""
_PIECE = """SELECT {columns} FROM read_parquet('{path}', file_row_number = true)
    WHERE file_row_number BETWEEN ? AND ?"""
_AND_METER = " AND meter IS NOT DISTINCT FROM ?"
_COPY = "COPY ({sources}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"


def write(path: Path, recorded: Mapping[str, Samples]) -> None:
    """Write the samples of meters, by label; the file appears under its name when it is whole.

    Raises ResultError where it cannot be written.
    """
    import duckdb

    try:
        with whole_file(path) as part, duckdb.connect() as connection:
            # One thread keeps the file the same, byte for byte, wherever it is written.
            connection.execute("SET threads = 1")
            sources = []
            for number, (label, samples) in enumerate(recorded.items()):
                table = f"samples_{number}"
                connection.register(table, {name: getattr(samples, name) for name in COLUMNS})
                sources.append(_SOURCE.format(meter=_text(label), values=_VALUES, table=table))
            union = " UNION ALL ".join(sources) or _EMPTY
            connection.execute(_COPY.format(sources=union, target=_escaped(part)))
    except (duckdb.Error, OSError) as error:
        raise ResultError(f"{path}: cannot be written: {storage_reason(error) or error}") from error


def read(path: Path) -> dict[str, Samples]:
    """Read a file of `write` back, by label. Raises ResultError where it cannot be read.

    A column that a meter never had takes no room: it is one NaN seen from every row.
    """
    import duckdb

    try:
        with duckdb.connect() as connection:
            # Threads hold row groups each; one is fast enough and holds the least.
            connection.execute("SET threads = 1")
            meters = connection.execute(_METERS.format(path=_escaped(path))).fetchall()
            return {str(row[0]): Samples(*_columns(connection, path, list(row))) for row in meters}
    except (duckdb.Error, OSError, KeyError, ValueError, TypeError) as error:
        # What follows the first line is about the query, which is none of the reader's business.
        words = storage_reason(error) or str(error).partition("\n")[0]
        raise ResultError(f"{path}: cannot be read: {words.removeprefix(f'{path} ')}") from error


def _columns(
    connection: duckdb.DuckDBPyConnection, path: Path, meter: list[Any]
) -> Iterator[NDArray[Any]]:
    """The columns of a row of `_METERS`, filled piece by piece."""
    import numpy as np

    label, count, first, last, *present = meter
    kept = [name for name, some in zip(COLUMNS, present, strict=True) if some or name in _WHOLE]
    filled = {name: np.empty(count, np.int64 if name in _WHOLE else np.float64) for name in kept}
    query = _PIECE.format(columns=", ".join(kept), path=_escaped(path))
    # In a file of ours a meter's rows lie together, and need not be told from others.
    mixed = count != last - first + 1
    query, chosen = (query + _AND_METER, [label]) if mixed else (query, [])
    at = 0
    for start in range(first, last + 1, _PIECE_ROWS):
        piece = connection.execute(query, [start, min(start + _PIECE_ROWS - 1, last), *chosen])
        columns = piece.fetchnumpy()
        size = len(columns["utc_ns"])
        for name in kept:
            values = columns[name]
            if isinstance(values, np.ma.MaskedArray):
                if name in _WHOLE and np.ma.is_masked(values):
                    raise ValueError(f"column {name} has a row without a value")
                values = values.filled(0 if name in _WHOLE else np.nan)
            filled[name][at : at + size] = values
        at += size
    absent = np.broadcast_to(np.float64(np.nan), count)
    yield from (filled.get(name, absent) for name in COLUMNS)


def _text(label: str) -> str:
    return "'" + label.replace("'", "''") + "'"


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")


_VALUES = ", ".join(
    f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END AS {name}"
    for name in COLUMNS
    if name not in _WHOLE
)
_EMPTY = """SELECT '' AS meter, 0::BIGINT AS utc_ns, 0::BIGINT AS monotonic_ns,
    0.0::DOUBLE AS power_w, 0.0::DOUBLE AS energy_j, 0.0::DOUBLE AS mark WHERE false"""
