"""The result folder of a fleet: what is in it, and reading it back.

study.toml      the study file as given
resolved.toml   the same with every default filled in and its scale applied
inputs.json     the scale, server descriptions, and what was drawn for each server
machine.json    processor, kernel, versions, commit, plan; `kind` is "fleet"
catalog.sqlite  a run for each policy, an iteration for each batch of servers, and one for all of
                them (`kind` "fleet") with the metrics of the whole fleet
samples/        one Parquet file for each batch: a row for each server
raw/            the totals of each batch as the native module gave them
report/         the page, figures and tables, derived
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, create_model

from wattio.errors import ResultError, storage_reason
from wattio.files import document
from wattio.files.document import Document
from wattio.files.whole import whole_file
from wattio.kinds.fleet.plan import Batch
from wattio.kinds.fleet.schema import KIND, FleetStudy
from wattio.results.folder import ResultFolder, write_json
from wattio.results.kept import Kept, Shape, numbers

Columns = dict[str, NDArray[np.float64]]
"""Columns over the servers of a fleet, in the order of their numbers; NaN where there is none."""

COLUMNS = (
    "duration_s",
    "ios",
    "ios_waiting_end",
    "latency_us_mean",
    "latency_us_p99",
    "power_w_mean",
    "energy_j",
    "energy_cores_j",
    "energy_drives_j",
    "energy_rest_j",
    "background_rate_mean",
    "background_rate_due",
    "background_backlog_core_s_end",
    "cores_active_mean",
    "utilisation_mean",
    "windows",
    "windows_skipped",
    "windows_alarmed",
    "knob_changes",
)
"""What is kept of each server."""


class _Server(Shape):
    name: str
    assumptions: list[Any] | None = None


class _Source(Shape):
    """What a server's load is; which keys there are depends on its kind."""

    kind: str
    pressure: float = 0.0
    pressure_max: float = 0.0
    rate: float = 0.0
    hour: float = 0.0
    swing: float = 0.0
    weekend: float = 0.0
    wander: float = 0.0
    step_s: float = 0.0
    first_day: int = 0
    mix: list[float] = Field(default_factory=list)
    begin: float = 0.0
    path: str = ""


class _Member(Shape):
    group: str
    server: str
    source: _Source


class _Inputs(Shape):
    scale: str | None = None
    servers: dict[str, _Server] = Field(default_factory=dict)
    members: list[_Member] = Field(default_factory=list)


_TOTALS = create_model("_TOTALS", __base__=Shape, **numbers(COLUMNS))


class _Batch(Shape):
    members: list[_TOTALS]  # type: ignore[valid-type]


class FleetFolder(ResultFolder):
    """One result folder of a fleet."""

    kind = KIND
    inputs_shape = _Inputs

    def study(self) -> FleetStudy:
        """The study with its scale applied."""
        content = self.resolved()
        source = Document(self.path / "resolved.toml", "", content)
        return document.validate(FleetStudy, source)

    def write_batch(self, batch: Batch, answer: dict[str, Any]) -> None:
        """Keep what a batch gave: the totals untouched, and as a table."""
        write_json(self.path / "raw" / f"{batch.identity}.json", answer)
        first = batch.request.members[0].number
        rows = answer["members"]
        table: dict[str, NDArray[Any]] = {"server": np.arange(first, first + len(rows))}
        for name in COLUMNS:
            values = [np.nan if row[name] is None else row[name] for row in rows]
            table[name] = np.array(values, dtype=np.float64)
        target = self.path / "samples" / f"{batch.identity}.parquet"
        with whole_file(target) as part, duckdb.connect() as connection:
            connection.register("rows", table)
            place = str(part).replace("'", "''")
            connection.execute(f"COPY rows TO '{place}' (FORMAT parquet, COMPRESSION zstd)")

    def read_raw(self, identity: str) -> list[dict[str, Any]]:
        """The totals of a batch, server by server."""
        return list(self._json(f"raw/{identity}.json", _Batch)["members"])

    def columns(self, label: str) -> Columns:
        """The servers of all batches that are done under a policy; empty where there is none."""
        batches = [
            item
            for item in self.iterations()
            if item.run.condition == label and (self.path / f"raw/{item.identity}.json").is_file()
        ]
        files = [str(self.path / "samples" / f"{item.identity}.parquet") for item in batches]
        if not files:
            return {}
        try:
            with duckdb.connect() as connection:
                found = connection.execute(
                    "SELECT * FROM read_parquet(?) ORDER BY server", [files]
                ).fetchnumpy()
        except duckdb.Error as error:
            said = storage_reason(error)
            raise ResultError(f"{self.path}: samples cannot be read: {said}") from error
        columns = {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}
        return Kept(self.path / "samples", columns)


def load_json(text: str) -> dict[str, Any]:
    """A JSON object of the native module."""
    content: dict[str, Any] = json.loads(text)
    return content


def open_folder(path: Path) -> FleetFolder:
    """Open a folder of this kind. Raises ResultError where it is not one."""
    return FleetFolder(path)
