"""Day profiles: a load as a sequence of segments, each represented by a few seconds.

A profile is a TOML file:

    [profile]
    name = "day"
    represent = "12.5 s"          # simulated seconds for each segment, on average

    [[segment]]
    span = "1 h"                  # what the segment lasts in the day
    pattern = "Rand_RW"           # one of PACER's Table II
    pressure = 0.04               # share of the saturated rate; or: iops = 5000.0
    io_bytes = "16 KiB"           # optional, in place of the pattern's
    read_fraction = 0.9           # optional, in place of the pattern's

Each segment is simulated for its share of the day: `represent` is the mean over the segments, so
that the plain mean over the simulated time is the mean over the day.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from wattio.files import document
from wattio.files.document import Strict
from wattio.files.quantity import Bytes, Seconds

PatternName = Literal["Rand_R", "Rand_W", "Seq_R", "Seq_W", "Rand_RW"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Pressure = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(gt=0)]
RateOrZero = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class Pattern:
    """How clients access the server: shares in 0 to 1, and the size of an I/O in bytes."""

    read_fraction: float
    random_fraction: float
    io_bytes: int


PATTERNS: dict[str, Pattern] = {
    "Rand_R": Pattern(read_fraction=1.0, random_fraction=1.0, io_bytes=8 * 1024),
    "Rand_W": Pattern(read_fraction=0.0, random_fraction=1.0, io_bytes=8 * 1024),
    "Seq_R": Pattern(read_fraction=1.0, random_fraction=0.0, io_bytes=128 * 1024),
    "Seq_W": Pattern(read_fraction=0.0, random_fraction=0.0, io_bytes=128 * 1024),
    "Rand_RW": Pattern(read_fraction=0.7, random_fraction=1.0, io_bytes=8 * 1024),
}
"""The access patterns of Table II of the PACER document."""


@dataclass(frozen=True)
class Segment:
    """One stretch of a profile; just one of `pressure` and `iops` is given."""

    span_s: float
    pattern: Pattern
    pattern_name: str
    pressure: float | None
    iops: float | None


@dataclass(frozen=True)
class Profile:
    """A day, or any other stretch of time, as segments of known pattern and rate."""

    name: str
    represent_s: float
    segments: tuple[Segment, ...]

    @property
    def span_s(self) -> float:
        """How long the profile lasts in reality, in seconds."""
        return sum(segment.span_s for segment in self.segments)

    @property
    def simulated_s(self) -> float:
        """How long it lasts in the simulation, in seconds."""
        return self.represent_s * len(self.segments)

    @property
    def compression(self) -> float:
        """How many seconds of reality one simulated second stands for."""
        return self.span_s / self.simulated_s


class _Head(Strict):
    name: str = Field(min_length=1)  # what results call it
    represent: Seconds  # simulated time of each segment, on average


class SegmentEntry(Strict):
    """`[[segment]]` of a profile, or a phase of a load."""

    span: Seconds  # how long it lasts
    pattern: PatternName  # kind of requests, of PACER's Table II
    # Its rate as a share of the rate at which the server saturates.
    pressure: Pressure | None = None
    iops: RateOrZero | None = None  # its rate in requests a second
    io_bytes: Bytes | None = None  # size of a request, in place of the pattern's
    read_fraction: Fraction | None = None  # share of reads, in place of the pattern's

    @model_validator(mode="after")
    def _one_rate(self) -> SegmentEntry:
        if (self.pressure is None) == (self.iops is None):
            raise ValueError("needs just one of pressure and iops")
        return self

    def resolved(self) -> Segment:
        """The segment with its pattern filled in."""
        base = PATTERNS[self.pattern]
        pattern = Pattern(
            base.read_fraction if self.read_fraction is None else self.read_fraction,
            base.random_fraction,
            base.io_bytes if self.io_bytes is None else round(self.io_bytes),
        )
        return Segment(self.span, pattern, self.pattern, self.pressure, self.iops)


class _ProfileFile(Strict):
    profile: _Head
    segment: list[SegmentEntry] = Field(min_length=1, max_length=100_000)


def load(path: Path) -> Profile:
    """Read a profile file. Raises InputError that names file, line and key."""
    return from_document(document.read(path))


def from_document(source: document.Document) -> Profile:
    """Make a profile of a TOML document. Raises InputError that names file, line and key."""
    parsed = document.validate(_ProfileFile, source)
    segments = tuple(entry.resolved() for entry in parsed.segment)
    return Profile(parsed.profile.name, parsed.profile.represent, segments)
