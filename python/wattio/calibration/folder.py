"""The folder of a calibration: what was swept with which meters, every point, every sample.

    calibration.json    host, meters, sweep, and what could not be swept
    points.csv          one line for each point, written as soon as it is measured
    samples.parquet     all that the meters said
    fit.json            the last fit

A folder that lacks its end, because the sweep was stopped, can be fitted all the same.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pydantic import ValidationError

from wattio.calibration import points
from wattio.calibration.points import Point
from wattio.errors import InputError
from wattio.files.document import Strict

RECORD, POINTS, SAMPLES, FIT = "calibration.json", "points.csv", "samples.parquet", "fit.json"


class Meter(Strict):
    """A meter that was recorded, as it told of itself."""

    name: str
    what: str
    period_s: float
    lag_s: float
    accuracy_class: str


class Record(Strict):
    """What a calibration was: enough to make a model of its points.

    `lacks` says what could not be swept, and why; `covers` what the meters feed, in the user's
    words. `frequency_max_hz` is the frequency at which phi is 1.
    """

    host: str
    begun: str
    meters: list[Meter]
    covers: list[str]
    frequency_max_hz: float
    frequencies_hz: list[float]
    cores: list[int]
    loads: list[float]
    with_io: bool
    repeat: int
    seed: int
    settle_s: float
    measure_s: float
    lacks: dict[str, str]


class DataFolder:
    """Such a folder."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self.path = path

    @property
    def recording(self) -> Path:
        """Where the recorder works while it runs."""
        return self.path / "recording"

    def create(self) -> None:
        """Make it. Raises InputError where there is something, or it cannot be made."""
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            raise InputError(
                f"{self.path}: is there already; move it away, or fit it anew with --from"
            ) from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made: {error.strerror}") from None

    def begin(self, record: Record) -> None:
        """Write what will be measured, and the head of the points."""
        text = json.dumps(record.model_dump(), indent=2, allow_nan=False)
        (self.path / RECORD).write_text(text + "\n", encoding="utf-8")
        (self.path / POINTS).write_text(points.dump([]), encoding="utf-8")

    def add(self, point: Point) -> None:
        """Write a point."""
        with (self.path / POINTS).open("a", encoding="utf-8") as file:
            file.write(points.dump([point], header=False))

    def keep_samples(self) -> None:
        """Make one file of what the recorder wrote."""
        from wattio.meters import parquet
        from wattio.recording import journal

        if self.recording.is_dir():
            parquet.write(self.path / SAMPLES, journal.read_folder(self.recording))
            shutil.rmtree(self.recording)

    def has_points(self) -> bool:
        """Whether there is anything worth keeping."""
        path = self.path / POINTS
        return path.exists() and bool(self.points())

    def remove(self) -> None:
        """Take it away."""
        shutil.rmtree(self.path)

    def keep_fit(self, told: object) -> None:
        """Write what the last fit said."""
        text = json.dumps(told, indent=2, allow_nan=False)
        (self.path / FIT).write_text(text + "\n", encoding="utf-8")

    def record(self) -> Record:
        """What was measured. Raises InputError."""
        path = self.path / RECORD
        try:
            return Record.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(f"{path}: {place}: {first['msg']}".replace(": : ", ": ")) from None

    def points(self) -> list[Point]:
        """Every point that was measured. Raises InputError."""
        return points.load(self.path / POINTS)
