"""The folder of a calibration: what was swept with which meters, every point, every sample.

    calibration.json    host, meters, sweep, and what could not be swept
    points.csv          one line for each point, written as soon as it is measured
    samples.parquet     all that the meters said
    fit.json            the last fit

A folder that lacks its end, because the sweep was stopped, can be fitted all the same.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from wattio.calibration import points
from wattio.calibration.kept import KeptFolder
from wattio.calibration.points import Point
from wattio.files.document import Strict

RECORD, SAMPLES, FIT = "calibration.json", "samples.parquet", "fit.json"


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


class DataFolder(KeptFolder[Record, Point]):
    """Such a folder."""

    record_file, record_kind, point_kind = RECORD, Record, Point
    parse = staticmethod(points.parse)

    @property
    def recording(self) -> Path:
        """Where the recorder works while it runs."""
        return self.path / "recording"

    def keep_samples(self) -> None:
        """Make one file of what the recorder wrote."""
        from wattio.meters import parquet
        from wattio.recording import journal

        if self.recording.is_dir():
            parquet.write(self.path / SAMPLES, journal.read_folder(self.recording))
            shutil.rmtree(self.recording)

    def keep_fit(self, told: object) -> None:
        """Write what the last fit said."""
        self.write(FIT, told)
