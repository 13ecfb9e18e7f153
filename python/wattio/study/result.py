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

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from wattio.analysis.histogram import WindowHistograms
from wattio.errors import ResultError
from wattio.simulation import Outcome, Request
from wattio.study import document, machine, samples, toml_text
from wattio.study.catalog import Catalog, Recorded
from wattio.study.governed import is_governed
from wattio.study.plan import Plan


class StudyFolder:
    """What the result folders of all kinds of studies have in common."""

    def __init__(self, path: Path) -> None:
        """Open a folder that exists. Raises ResultError where it is not a result folder."""
        self.path = path
        if not (path / "catalog.sqlite").is_file() or not (path / "machine.json").is_file():
            raise ResultError(f"{path}: is not a result folder: it has no catalog.sqlite")
        if is_governed(path):
            message = "was left by wattiod; only `wattio report` and `wattio recompute` take it"
            raise ResultError(f"{path}: {message}")

    @property
    def name(self) -> str:
        """The folder's own name: time and short hash."""
        return self.path.resolve().name

    @property
    def kind(self) -> str:
        """The kind of study that it holds."""
        return str(self.machine().get("kind", "simulation"))

    def study_source(self) -> document.Document:
        """The study file as given, under the path it had, so that its relative paths still hold."""
        text = self._read("study.toml")
        return document.parse(Path(self.machine()["study_file"]), text)

    def unchanged_source(self) -> document.Document:
        """The study file as given. Raises ResultError where it says something else by now."""
        source = self.study_source()
        try:
            current = source.path.read_text(encoding="utf-8")
        except OSError:
            current = source.text
        if current != source.text:
            raise ResultError(
                f"{source.path}: has changed since {self.path} was begun; run it as a new study,"
                " or put the file back as it was (the folder keeps it as study.toml)"
            )
        return source

    def study_text(self) -> str:
        """The study file as given."""
        return self._read("study.toml")

    def resolved(self) -> dict[str, Any]:
        """The study with every default filled in."""
        return dict(document.read(self.path / "resolved.toml").content)

    def machine(self) -> dict[str, Any]:
        """The machine, the versions and the plan."""
        return self._json("machine.json")

    def catalog(self) -> Catalog:
        """Open the catalog; the caller closes it."""
        return Catalog(self.path / "catalog.sqlite")

    def iterations(self) -> list[Recorded]:
        """Every iteration that is done."""
        catalog = self.catalog()
        try:
            return catalog.iterations()
        finally:
            catalog.close()

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except OSError as error:
            raise ResultError(f"{self.path / name}: cannot be read: {error.strerror}") from error

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._read(name))
        except json.JSONDecodeError as error:
            raise ResultError(f"{self.path / name}: is not valid JSON: {error}") from error
        return content


class ResultFolder(StudyFolder):
    """The result folder of a simulation study."""

    def __init__(self, path: Path) -> None:
        """Open a folder that exists. Raises ResultError where it holds no simulation."""
        super().__init__(path)
        if self.kind != "simulation":
            raise ResultError(f"{path}: holds a {self.kind}, not a simulation")

    @classmethod
    def create(cls, plan: Plan, results: Path, now_utc: datetime) -> ResultFolder:
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


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that appears under its name when it is whole."""
    part = path.with_name(f".{path.name}.part")
    text = json.dumps(content, indent=1, allow_nan=False)
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)
