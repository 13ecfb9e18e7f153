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

import numpy as np

from wattio.analysis.histogram import WindowHistograms
from wattio.errors import InputError, ResultError
from wattio.kinds.simulation import trace_set
from wattio.results import samples
from wattio.results.folder import ResultFolder, write_json
from wattio.results.runs import Recorded
from wattio.simulator.simulation import Outcome, Request


class SimulationFolder(ResultFolder):
    """The result folder of a simulation study."""

    kind = "simulation"

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
        summary = self._json(f"raw/{recorded.identity}.json")
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
