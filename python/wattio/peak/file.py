"""`peak.toml`: the measured or published parts of a cluster, which a study names.

A part is so many equal units in so many equal nodes, with a rate for each quantity it counts for:

    [peak]
    name = "arm"
    rule = "thesis"

    [[part]]
    kind = "disk"
    node = "data"
    nodes = 4
    per_node = 2
    origin = "published"
    how = "the thesis, Table 4.1"
    read_throughput_mib_s = { mean = 142.48, deviation = 5.59 }
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from wattio.analysis.peak import QUANTITIES, Kind, Part, Peak, Quantity, Rate, Rule
from wattio.errors import InputError
from wattio.files import document, toml_text
from wattio.files.document import Document, Strict
from wattio.files.whole import write_whole

Origin = Literal["measured", "published", "datasheet", "assumed"]


def key_of(quantity: Quantity) -> str:
    """The key of a quantity's rate in a part: `read_iops`."""
    return f"{quantity.direction}_{quantity.measure}"


class RateEntry(Strict):
    """The rate of one unit: mean, standard deviation of the sample, how many values."""

    mean: float = Field(gt=0, allow_inf_nan=False)  # of all values
    # Standard deviation of the sample.
    deviation: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    n: int | None = Field(default=None, ge=1)  # how many values


class PartEntry(Strict):
    """Equal units of one kind, and where their rates come from."""

    kind: Kind  # what the units are
    node: str = "node"  # what the nodes with these units are called
    nodes: int = Field(default=1, ge=1)  # how many nodes have them
    per_node: int = Field(default=1, ge=1)  # how many each has
    where: str = ""  # the device or the path that was measured
    origin: Origin  # where the rates come from
    how: str = ""  # how they were found
    read_throughput_mib_s: RateEntry | None = None  # of one unit
    write_throughput_mib_s: RateEntry | None = None  # of one unit
    read_iops: RateEntry | None = None  # of one unit
    write_iops: RateEntry | None = None  # of one unit

    def part(self) -> Part:
        """As the pure model takes it."""
        rates = {
            quantity: Rate(entry.mean, entry.deviation, entry.n)
            for quantity in QUANTITIES
            if (entry := getattr(self, key_of(quantity))) is not None
        }
        return Part(self.kind, rates, self.node, self.nodes, self.per_node, self.where)


class Head(Strict):
    """What the parts belong to, by which rule shares are taken, when they were measured (UTC)."""

    name: str = Field(min_length=1)  # what the parts belong to
    rule: Rule = "thesis"  # how shares are taken; see the guide
    measured: str | None = None  # when, in UTC


class PeakFile(Strict):
    """A `peak.toml` as read or measured."""

    peak: Head
    part: list[PartEntry] = Field(min_length=1)

    def model(self) -> Peak:
        """As the pure model takes it."""
        return Peak(self.peak.name, tuple(entry.part() for entry in self.part), rule=self.peak.rule)

    def text(self) -> str:
        """As TOML."""
        content: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return toml_text.dump(content)


def read_peak(path: Path) -> Peak:
    """The peak that a file describes. Raises InputError where it cannot be used."""
    return from_document(document.read(path)).model()


def from_document(source: Document) -> PeakFile:
    """The checked content of a file. Raises InputError for the first thing that is wrong."""
    found = document.validate(PeakFile, source)
    for place, entry in enumerate(found.part):
        if not entry.part().rates:
            keys = ", ".join(key_of(quantity) for quantity in QUANTITIES)
            raise source.error(("part", place), f"has no rate; give one or more of {keys}")
    model = found.model()
    for quantity in QUANTITIES:
        try:
            model.limit(quantity, "nodes")
        except ValueError as error:
            raise source.error(("part",), f"{key_of(quantity)}: {error}") from None
    return found


def write(path: Path, content: PeakFile) -> None:
    """Write a file, whole or not at all. Raises InputError where that is not possible."""
    try:
        write_whole(path, content.text())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
