"""Samples of an iteration as Parquet: one row for each latency window, with its histogram.

The columns are those of `wattio._core.Simulation.windows` or of a governor's journal, then
`histogram_latency_us` and `histogram_count` (lists: upper edges and counts of the buckets that hold
something). `start_s` and `span_s` are on the simulation's clock, which starts at the end of the
warm-up. An absent value is NULL.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from wattio.analysis.histogram import WindowHistograms
from wattio.errors import ResultError, storage_reason
from wattio.files.whole import whole_file
from wattio.results.kept import Kept

Windows = dict[str, NDArray[np.float64]]

_EDGES, _COUNTS = "histogram_latency_us", "histogram_count"

_COPY = """COPY (
    SELECT {columns},
        coalesce(edges, []) AS histogram_latency_us, coalesce(counts, []) AS histogram_count
    FROM windows LEFT JOIN (
        SELECT row, list(edge ORDER BY edge) AS edges, list(amount ORDER BY edge) AS counts
        FROM buckets GROUP BY row
    ) USING (row)
    ORDER BY row
) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"""


def write(path: Path, windows: Mapping[str, NDArray[Any]], histograms: WindowHistograms) -> None:
    """Write one file; it appears under its name when it is whole.

    Columns are numbers with NaN where there is none, whole numbers, or texts (objects) with None.
    """
    count = histograms.windows
    for name, column in windows.items():
        if len(column) != count:
            raise ResultError(f"{path}: column {name} has {len(column)} rows, not {count}")
    starts = histograms.offsets.astype(np.int64)
    row = np.arange(count, dtype=np.int64)
    flat = {
        "row": np.repeat(row, starts[1:] - starts[:-1]),
        "edge": np.ascontiguousarray(histograms.edge, dtype=np.float64),
        "amount": np.ascontiguousarray(histograms.count, dtype=np.uint64),
    }
    table = {f"c{index}": np.ascontiguousarray(c) for index, c in enumerate(windows.values())}
    names = list(windows)
    columns = ", ".join(
        f"{_nullable(f'c{index}', windows[name])} AS {quoted(name)}"
        for index, name in enumerate(names)
    )
    try:
        with whole_file(path) as part, duckdb.connect() as connection:
            # One thread keeps the file the same, byte for byte, wherever it is written.
            connection.execute("SET threads = 1")
            connection.register("windows", {"row": row, **table})
            connection.register("buckets", flat)
            connection.execute(_COPY.format(columns=columns, target=_escaped(part)))
    except (duckdb.Error, OSError) as error:
        raise ResultError(f"{path}: cannot be written: {storage_reason(error) or error}") from error


def read(path: Path) -> tuple[Windows, WindowHistograms]:
    """Read one file back; NULL becomes NaN. Raises ResultError where it cannot be read."""
    try:
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            # The file's own order is the order of the windows.
            source = f"FROM read_parquet('{_escaped(path)}')"
            columns = connection.execute(f"SELECT * EXCLUDE ({_EDGES}, {_COUNTS}) {source}")
            windows = {
                name: np.ma.filled(column.astype(np.float64), np.nan)
                for name, column in columns.fetchnumpy().items()
            }
            lengths = connection.execute(f"SELECT len({_COUNTS}) AS n {source}").fetchnumpy()["n"]
            flat = connection.execute(
                f"SELECT unnest({_EDGES}) AS edge, unnest({_COUNTS}) AS amount {source}"
            ).fetchnumpy()
    except (duckdb.Error, OSError, KeyError) as error:
        words = str(storage_reason(error) or error).removeprefix(f"{path} ")
        raise ResultError(f"{path}: cannot be read: {words}") from error
    if not len(lengths):
        raise ResultError(f"{path}: holds no window: the file is damaged")
    offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths))]).astype(np.uint64)
    edge = np.asarray(flat["edge"], dtype=np.float64)
    count = np.asarray(flat["amount"], dtype=np.uint64)
    return Kept(path, windows), WindowHistograms(offsets, edge, count)


def _nullable(column: str, values: NDArray[Any]) -> str:
    """SQL of a column's value, NULL where it is absent."""
    if values.dtype.kind == "f":
        return f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END"
    # A column of nothing but None would have no type.
    return f"CAST({column} AS VARCHAR)" if values.dtype.kind == "O" else column


def quoted(name: str) -> str:
    """The name of a column as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _escaped(path: os.PathLike[str]) -> str:
    return str(path).replace("'", "''")
