"""`wattio.open`: a result folder as an object with rows, tables and figures."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from wattio.api import arguments
from wattio.api.figures import Drawn, Figure
from wattio.api.tables import Table
from wattio.errors import InputError, ResultError, storage_reason
from wattio.files.document import nearest
from wattio.kinds import module_of
from wattio.results import summary
from wattio.results.catalog import Catalog
from wattio.results.folder import kind_of
from wattio.results.runs import Recorded
from wattio.results.samples import quoted
from wattio.results.summary import Row

if TYPE_CHECKING:
    from wattio.kinds.governor.folder import GovernorFolder


@dataclass(frozen=True)
class Result:
    """A result folder of any kind of study, or of `wattiod`; nothing in it is changed.

    Only catalog and samples of what `wattiod` left are derived where they are missing (in a
    temporary folder where this one cannot be written).
    """

    path: Path
    kind: str
    _governor: GovernorFolder | None = field(default=None, repr=False, compare=False)
    _drawn: list[Drawn] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def _derived(self) -> Path:
        """Where the catalog and samples are: of `wattiod`, elsewhere if the folder is read-only."""
        return self.path if self._governor is None else self._governor.place

    @property
    def iterations(self) -> list[Recorded]:
        """Every iteration that is done: its run, seed, verdicts, and metrics by phase."""
        with Catalog(self._derived / "catalog.sqlite", reading=True) as catalog:
            return catalog.iterations()

    @property
    def summary(self) -> list[Row]:
        """A row for each phase of each run: `row.run`, `row.mean("power_w_mean")`, intervals."""
        return summary.by_subject(summary.rows(self.iterations))

    def tables(self) -> list[str]:
        """The names that `table` takes."""
        return list(_TABLES)

    def table(self, name: str = "summary") -> Table:
        """A table: "summary", "metrics", "verdicts", "phases" or "samples".

        "metrics" has a row for each metric of each iteration; "samples" has a row for each latency
        window (simulations, wattiod) or power sample (measurements), with the file it is from as
        `iteration`. Raises InputError for another name, ResultError where it cannot be read.
        """
        if name not in _TABLES:
            raise InputError(f'no table is called "{name}"; {nearest(name, list(_TABLES))}')
        return _TABLES[name](self)

    def figures(self) -> list[Figure]:
        """The figures of the report; one that is missing is made elsewhere. Raises ResultError.

        What is made lies in a temporary folder for as long as this result or a figure is in use.
        """
        report, kept = self.path / "report", None
        if not (report / "index.html").is_file():
            if not self._drawn:
                self._drawn.append(Drawn(self.path))
            kept = self._drawn[0]
            report = kept.path
        return [Figure(file.stem, file, kept) for file in sorted(report.glob("*.svg"))]

    def __repr__(self) -> str:
        """Kind and place."""
        return f"<wattio {self.kind} in {self.path}>"

    def _repr_html_(self) -> str:
        title = html.escape(f"{self.kind}: {self.path}")
        return f"<p>{title}</p>{self.table()._repr_html_()}"


def open_result(path: str | os.PathLike[str]) -> Result:
    """Open a result folder, as `wattio run` printed it. Raises ResultError where it is none.

    What is no path raises InputError.
    """
    folder = Path(arguments.path("path", path))
    kind = kind_of(folder)
    # Says what is missing; what wattiod left has its catalog derived from the journal first.
    opened = module_of(folder, "folder").open_folder(folder)
    if kind != "governor":
        return Result(folder, kind)
    opened.refresh()
    return Result(folder, kind, opened)


IN_SUMMARY = (
    *("power_w_mean", "energy_j", "saving_share", "iops_mean", "iops", "throughput_mib_s"),
    *("iops_per_watt", "mib_per_joule", "files_per_s", "files_per_joule"),
    *("latency_us_mean", "latency_us_p99"),
    *("relative_latency_us_mean", "relative_latency_us_p99", "captured_share"),
)
"""Metrics that the table of a summary has a column for, where any run has them."""


def _summary(result: Result) -> Table:
    rows = result.summary
    columns: dict[str, list[Any]] = {
        "subject": [row.run.subject for row in rows],
        "system": [row.run.system for row in rows],
        "condition": [row.run.condition for row in rows],
        "phase": [row.phase for row in rows],
        "iterations": [row.used for row in rows],
        "invalid": [row.invalid for row in rows],
    }
    for name in IN_SUMMARY:
        means = [row.mean(name) for row in rows]
        if any(mean is not None for mean in means):
            columns[name] = means
    if any(row.bound_kept is not None for row in rows):
        columns["bound_kept"] = [row.bound_kept for row in rows]
    return Table(columns)


def _of_catalog(sql: str) -> Callable[[Result], Table]:
    def read(result: Result) -> Table:
        # By the catalog's own connection: it converts folders of version 0.1, and knows how to
        # read where nothing can be written.
        with Catalog(result._derived / "catalog.sqlite", reading=True) as catalog:
            return Table.of_rows(*catalog.query(sql))

    return read


_NOT_SHOWN = ("filename", "histogram_latency_us", "histogram_count")


def _samples(result: Result) -> Table:
    files = sorted(str(path) for path in (result._derived / "samples").glob("*.parquet"))
    if not files:
        raise ResultError(f"{result.path}: holds no samples")
    try:
        with duckdb.connect() as connection:
            source = "FROM read_parquet(?, union_by_name = true, filename = true)"
            every = connection.execute(f"SELECT * {source} LIMIT 0", [files]).description
            names = [name for name, *_ in every or () if name not in _NOT_SHOWN]
            columns = ", ".join(map(quoted, names))
            found = connection.execute(
                f"SELECT parse_filename(filename, true) AS iteration, {columns} {source}",
                [files],
            ).fetchnumpy()
    except duckdb.Error as error:
        said = storage_reason(error)
        raise ResultError(f"{result.path}/samples: cannot be read: {said}") from error
    return Table(found)


_RUN = "runs.subject, runs.system, runs.condition, iterations.iteration, seed, repetition"
_JOIN = "JOIN iterations USING (iteration) JOIN runs USING (run) ORDER BY runs.position, seed"

_TABLES: dict[str, Callable[[Result], Table]] = {
    "summary": _summary,
    "metrics": _of_catalog(f"SELECT {_RUN}, phase, name, value, unit FROM metrics {_JOIN}"),  # noqa: S608
    "verdicts": _of_catalog(f"SELECT {_RUN}, verdict, reason FROM verdicts {_JOIN}"),  # noqa: S608
    "phases": _of_catalog(
        f"SELECT {_RUN}, name, start_utc_ns, end_utc_ns FROM phases {_JOIN}"  # noqa: S608
    ),
    "samples": _samples,
}
