"""The result folder of a measurement: what is in it, and reading it back.

study.toml      the study file as given
resolved.toml   the same with every default filled in and its scale applied
inputs.json     the scale, meter, hosts and scratch folder asked for; the theoretical peak's file
machine.json    processor, kernel, versions, commit, plan; `kind` is "measurement"
attached.json   facts of meters whose recorded samples joined afterwards
catalog.sqlite  runs, iterations, phases, verdicts, metrics
samples/        every power sample, one Parquet file for each session of running
recording/      the same while a session runs, as the sampling process writes it
raw/            for each iteration its record and its tools' own output, step by step
report/         pages and figures, derived
lock            locked while something is measured into the folder
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from wattio.kinds.measurement import record
from wattio.kinds.measurement.record import Record, on_disk
from wattio.kinds.measurement.schema import KIND
from wattio.meters import parquet, public_name
from wattio.meters.meter import Facts
from wattio.recording import Event, Samples
from wattio.recording.journal import EVENTS, SOURCES, read_events, read_folder
from wattio.results.folder import ResultFolder
from wattio.results.kept import Shape, checked


class _Inputs(Shape):
    """What was asked for, as `overrides.Asked` has it, and the text of the peak's file."""

    scale: str | None = None
    meter: str | None = None
    each: str | None = None
    peak_file: str | None = None
    clients: str | None = None
    servers: str | None = None
    ssh: list[str] | None = None
    scratch: str | None = None
    without: list[str] | None = None
    peak: str | None = None


_ATTACHED = TypeAdapter(dict[str, Facts])


class MeasurementFolder(ResultFolder):
    """One result folder of a measurement."""

    kind = KIND
    parts = ("samples", "recording", "raw", "report")
    inputs_shape = _Inputs

    def public_study_text(self) -> str:
        """The study file as given, with what is secret in the names of meters hidden."""
        text = self.study_text()
        for meter in self.study_source().content.get("meter", []):
            name = meter.get("name") if isinstance(meter, dict) else None
            if isinstance(name, str):
                text = text.replace(name, public_name(name))
        return text

    def raw(self, identity: str) -> Path:
        """The folder of an iteration's record and raw files."""
        return self.path / "raw" / identity

    def record(self, identity: str) -> Record:
        """How an iteration went; meters that joined later are among its meters. ResultError."""
        found = record.read(self.raw(identity))
        return replace(found, meters={**found.meters, **self.attached()})

    def attached(self) -> dict[str, Facts]:
        """Facts of the meters whose recorded samples joined the result afterwards, by label."""
        if not (self.path / "attached.json").exists():
            return {}
        return checked(self.path / "attached.json", self._read("attached.json"), _ATTACHED)

    def facts(self, records: Iterable[Record]) -> dict[str, Facts]:
        """What the meters of some iterations, and those that joined later, said, by label."""
        found: dict[str, Facts] = {}
        for one in records:
            found |= one.meters
        return found | self.attached()

    def new_session(self) -> tuple[str, Path]:
        """The name of the next session, and the empty folder that its recording goes to."""
        known = [path.stem for path in (self.path / "samples").glob("[0-9]*.parquet")]
        known += [path.name for path in (self.path / "recording").glob("[0-9]*")]
        session = f"{max(map(int, known), default=0) + 1:04}"
        folder = self.path / "recording" / session
        folder.mkdir(parents=True)
        return session, folder

    def sessions(self) -> list[str]:
        """Every session that is kept or being recorded, in order."""
        known = {path.stem for path in (self.path / "samples").glob("[0-9]*.parquet")}
        known |= {path.name for path in (self.path / "recording").glob("[0-9]*")}
        return sorted(known)

    def recordings(self) -> list[str]:
        """Sessions whose recording is there still: they run, or were not settled up."""
        return sorted(path.name for path in (self.path / "recording").glob("[0-9]*"))

    def keep(self, session: str) -> None:
        """Turn the recording of a session that has ended into a file of samples."""
        folder = self.path / "recording" / session
        target = self.path / "samples" / f"{session}.parquet"
        # A recording without its list of meters never began.
        if target.exists() or not (folder / SOURCES).exists():
            return
        # Samples last: where they are, a session counts as kept, whatever a kill left out.
        if (folder / EVENTS).exists():
            shutil.copy(folder / EVENTS, target.with_suffix(".events.jsonl"))
        parquet.write(target, read_folder(folder))
        on_disk(target)

    def drop_recording(self, session: str) -> None:
        """Remove a recording that was kept."""
        shutil.rmtree(self.path / "recording" / session, ignore_errors=True)

    def samples(self, session: str) -> dict[str, Samples]:
        """Every sample of a session, by the meter's label. Raises ResultError."""
        kept = self.path / "samples" / f"{session}.parquet"
        if kept.exists():
            return parquet.read(kept)
        return read_folder(self.path / "recording" / session)

    def events(self, session: str) -> list[Event]:
        """What happened to meters and clock in a session."""
        kept = self.path / "samples" / f"{session}.events.jsonl"
        return read_events(kept if kept.exists() else self.path / "recording" / session / EVENTS)


def open_folder(path: Path) -> MeasurementFolder:
    """Open a folder of this kind. Raises ResultError where it is not one."""
    return MeasurementFolder(path)
