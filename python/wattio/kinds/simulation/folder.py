"""The result folder of a study: what is in it, and reading it back.

study.toml      the study file as given
resolved.toml   the same with every default filled in and paths whole
inputs.json     server descriptions and loads as they were read, and the folder of `--traces`
machine.json    processor, kernel, versions, commit, seeds
catalog.sqlite  runs, iterations, phases, verdicts, metrics
samples/        one Parquet file for each iteration: its latency windows
raw/            the summary of each iteration as the simulator gave it
report/         pages and figures, derived
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, create_model

from wattio.analysis.histogram import WindowHistograms
from wattio.errors import InputError, ResultError
from wattio.kinds.simulation import metrics, trace_set
from wattio.results import samples
from wattio.results.folder import ResultFolder, write_json
from wattio.results.kept import Shape, numbers
from wattio.results.runs import Recorded
from wattio.simulator.simulation import Outcome, Request


class _Phase(Shape):
    pattern: str = ""
    pressure: float = 0.0
    iops: float = 0.0
    io_bytes: float = 0.0
    span_s: float = 0.0


class _Request(_Phase):
    """What of a load's request a page tells; which keys there are depends on its kind."""

    trace: str = ""
    rate_scale: float = 1.0
    time_scale: float = 1.0
    phases: list[_Phase] = Field(default_factory=list)


class _Segment(Shape):
    span_s: float = 0.0


class _Profile(Shape):
    name: str = ""
    span_s: float = 0.0
    simulated_s: float = 0.0
    compression: float = 1.0
    segments: list[_Segment] = Field(default_factory=list)


class _Identity(Shape):
    trace: str = ""


class _Load(Shape):
    kind: str = ""
    request: _Request = _Request()
    identity: _Identity = _Identity()
    profile: _Profile | None = None


class _Server(Shape):
    title: str | None = None
    assumptions: list[Any] | None = None


class _Inputs(Shape):
    servers: dict[str, _Server] = Field(default_factory=dict)
    loads: dict[str, _Load] = Field(default_factory=dict)
    traces: str | None = None


class _Studied(Shape):
    seeds: list[int] = Field(default_factory=list)
    repetitions: int = 1


class _Named(Shape):
    name: str
    bounds: list[str] | None = None


class _Resolved(Shape):
    study: _Studied
    load: list[_Named] = Field(default_factory=list)


class _Outcome(Shape):
    """A summary of the simulator; its other numbers are those of `metrics.UNITS`."""

    ios: int
    energy_j: float
    state_share: dict[str, float] | None = None
    littles_law_deviation: float | None = None


_SUMMARY = create_model(
    "_SUMMARY",
    __base__=_Outcome,
    **numbers(set(metrics.UNITS) - {"ios", "energy_j"}),
)


class SimulationFolder(ResultFolder):
    """The result folder of a simulation study."""

    kind = "simulation"
    inputs_shape = _Inputs
    resolved_shape = _Resolved

    def as_begun(self, text: str) -> str:
        """A study file's text, with the folder of traces that it was asked to play."""
        traces = self.inputs().get("traces")
        if traces is None:
            return text
        try:
            return trace_set.with_folder(text, Path(traces))
        except InputError:
            return text  # It has lost its table of traces, and is another study.

    def write_outcome(self, identity: str, outcome: Outcome) -> None:
        """Keep what a run gave: its summary untouched, its windows with their histograms."""
        write_json(self.path / "raw" / f"{identity}.json", outcome.summary)
        histograms = WindowHistograms(*outcome.window_histograms)
        samples.write(self.path / "samples" / f"{identity}.parquet", outcome.windows, histograms)

    def read_outcome(self, recorded: Recorded) -> Outcome:
        """What a run gave, from the files it was kept in. Raises ResultError."""
        summary = self._json(f"raw/{recorded.identity}.json", _SUMMARY)
        path = self.path / "samples" / f"{recorded.identity}.parquet"
        if not path.is_file():
            raise ResultError(f"{path}: is missing; the result is incomplete")
        windows, histograms = samples.read(path)
        request = Request(
            server=recorded.run.system,
            policy=recorded.run.policy,
            load=self.inputs()["loads"][recorded.run.subject]["request"],
            settings=recorded.run.settings,
            seed=recorded.derived_seed,
        )
        edge, count = histograms.merged()
        flat = (histograms.offsets, histograms.edge, histograms.count)
        return Outcome(request, summary, windows, flat, (edge, count.astype(np.uint64)))


def open_folder(path: Path) -> SimulationFolder:
    """Open a folder of this kind. Raises ResultError where it is not one."""
    return SimulationFolder(path)
