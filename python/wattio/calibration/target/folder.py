"""The folder of a calibration of a target: what was asked, and every point.

    target.json    host, settings, and what a client reaches at depth 32
    points.csv     one line for each point, written as soon as it is measured

A folder that lacks its end, because the sweep was stopped, can be fitted all the same where it has
points of every kind.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from wattio.calibration.kept import KeptFolder
from wattio.calibration.target import points
from wattio.calibration.target.governed import Governed
from wattio.calibration.target.points import Point
from wattio.files.document import Strict

RECORD = "target.json"


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
    # What the target did under laws, if that was asked for.
    governed: list[Governed] = Field(default_factory=list)
    # Load of the machine (1 min) at the beginning and at the end.
    load_average: list[float] = Field(default_factory=list)


class DataFolder(KeptFolder[Record, Point]):
    """Such a folder."""

    record_file, record_kind, point_kind = RECORD, Record, Point
    parse = staticmethod(points.parse)

    @property
    def scratch(self) -> Path:
        """Where disk and sockets lie meanwhile."""
        return self.path / "run"
