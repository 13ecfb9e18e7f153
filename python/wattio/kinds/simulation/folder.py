"""The result folder of a study: what is in it, and reading it back.

study.toml      the study file as given
resolved.toml   the same with every default filled in and paths whole
inputs.json     server descriptions and loads as they were read
machine.json    processor, kernel, versions, commit, seeds
catalog.sqlite  runs, iterations, phases, verdicts, metrics
samples/        one Parquet file for each iteration: its latency windows
raw/            the summary of each iteration as the simulator gave it
report/         pages and figures, derived
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from wattio.analysis.histogram import WindowHistograms
from wattio.errors import ResultError
from wattio.files import toml_text
from wattio.kinds.simulation.plan import Plan
from wattio.results import machine, samples
from wattio.results.catalog import Catalog, Recorded
from wattio.results.folder import ResultFolder, write_json
from wattio.simulator.simulation import Outcome, Request


class SimulationFolder(ResultFolder):
    """The result folder of a simulation study."""

    def __init__(self, path: Path) -> None:
        """Open a folder that exists. Raises ResultError where it holds no simulation."""
        super().__init__(path)
        if self.kind != "simulation":
            raise ResultError(f"{path}: holds a {self.kind}, not a simulation")

    @classmethod
    def create(cls, plan: Plan, results: Path, now_utc: datetime) -> SimulationFolder:
        """Begin a new folder `results/<study>/<UTC time>-<short hash>/`."""
        stamp = now_utc.strftime("%Y%m%dT%H%M%SZ")
        path = results / plan.study.study.name / f"{stamp}-{plan.short_hash}"
        try:
            for name in ("samples", "raw", "report"):
                (path / name).mkdir(parents=True)
        except OSError as error:
            raise ResultError(f"{path}: cannot be made: {error.strerror}") from error
        facts = machine.describe() | {
            "seeds": plan.study.study.seeds,
            "study_file": str(plan.source.path.resolve()),
            "plan": [iteration.identity for iteration in plan.iterations],
            "started_utc": now_utc.isoformat(timespec="seconds"),
        }
        inputs = {"servers": plan.servers, "loads": plan.loads}
        (path / "study.toml").write_text(plan.source.text, encoding="utf-8")
        (path / "resolved.toml").write_text(toml_text.dump(plan.resolved), encoding="utf-8")
        write_json(path / "inputs.json", inputs)
        write_json(path / "machine.json", facts)
        catalog = Catalog(path / "catalog.sqlite")
        runs = {iteration.run.name: iteration.run for iteration in plan.iterations}
        catalog.add_runs(runs.values())
        catalog.close()
        return cls(path)

    def inputs(self) -> dict[str, Any]:
        """Server descriptions and loads as they were read."""
        return self._json("inputs.json")

    def complete(self) -> bool:
        """Whether every iteration of the plan is done."""
        return {item.identity for item in self.iterations()} >= set(self.machine()["plan"])

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
            server=recorded.run.server,
            policy=recorded.run.policy,
            load=self.inputs()["loads"][recorded.run.load]["request"],
            settings=recorded.run.settings,
            seed=recorded.derived_seed,
        )
        edge, count = histograms.merged()
        flat = (histograms.offsets, histograms.edge, histograms.count)
        return Outcome(request, summary, windows, flat, (edge, count.astype(np.uint64)))


def open_folder(path: Path) -> SimulationFolder:
    """Open a folder of this kind. Raises ResultError where it is not one."""
    return SimulationFolder(path)
