"""The folder of a calibration of a target: what was asked, and every point.

    target.json    host, settings, and what a client reaches at depth 32
    points.csv     one line for each point, written as soon as it is measured

A folder that lacks its end, because the sweep was stopped, can be fitted all the same where it has
points of every kind.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pydantic import Field, ValidationError

from wattio.calibration.target import points
from wattio.calibration.target.points import Point
from wattio.errors import InputError
from wattio.files.document import Strict

RECORD, POINTS = "target.json", "points.csv"


class Record(Strict):
    """What was measured, on which host, with which settings of the target."""

    host: str
    begun: str
    version: str | None
    processor: str
    cores: int = Field(ge=1)
    reactors: int = Field(ge=1, le=64)
    cache_bytes: int = Field(ge=0)
    write_buffer_bytes: int = Field(ge=0)
    size_bytes: int = Field(ge=1)
    device: str
    measure_s: float = Field(gt=0)
    repeat: int = Field(ge=1)
    seed: int = Field(ge=0)
    # Requests a second at depth 32, by kind and size, as "read 4096".
    saturated_per_s: dict[str, float] = Field(default_factory=dict)
    # Load of the machine (1 min) at the beginning and at the end.
    load_average: list[float] = Field(default_factory=list)


class DataFolder:
    """Such a folder."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self.path = path

    @property
    def scratch(self) -> Path:
        """Where disk and sockets lie meanwhile."""
        return self.path / "run"

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
        (self.path / POINTS).write_text(points.dump([]), encoding="utf-8")

    def keep(self, record: Record) -> None:
        """Write what is measured."""
        text = json.dumps(record.model_dump(), indent=2, allow_nan=False)
        (self.path / RECORD).write_text(text + "\n", encoding="utf-8")

    def add(self, point: Point) -> None:
        """Write a point."""
        with (self.path / POINTS).open("a", encoding="utf-8") as file:
            file.write(points.dump([point], header=False))

    def remove_if_empty(self) -> None:
        """Take it away where it has no points."""
        if not self.points():
            shutil.rmtree(self.path)

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
