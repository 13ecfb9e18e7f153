"""`platform.toml` and `application.toml`: what `wattio advise io` reads."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from wattio._core import parse_quantity
from wattio.errors import InputError
from wattio.files import document, toml_text
from wattio.files.document import Strict
from wattio.files.quantity import Seconds, SecondsOrZero, Size, Watts
from wattio.models import approach, parameter
from wattio.models.observed import Observed
from wattio.models.parameter import Origin, Parameter
from wattio.models.scalability import Form, Points, Scalability
from wattio.models.scenario import DISCREPANCY, Application, Platform

Count = Annotated[int, Field(ge=1, le=10**9)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Speedup = Annotated[float, Field(gt=0, lt=1e9)]

SMALLEST = 1e-12
"""Draws of what must be above zero are cut off here."""


def _read_rate(value: object) -> float:
    if not isinstance(value, str) or not value.rstrip().endswith("/s"):
        raise ValueError(f'{value!r} is not a data rate; write it as text, for example "60 MB/s"')
    return parse_quantity(value.rstrip().removesuffix("/s"), "data size")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is not finite")
    return value


BytesPerSecond = Annotated[
    float,
    BeforeValidator(_read_rate),
    PlainSerializer(lambda value: f"{value!r} B/s", return_type=str),
    Field(gt=0),
]
"""A data rate, in bytes per second: "60 MB/s"."""


def _read_energy(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError(f'{value!r} has no unit; write it as text, for example "3324 kJ"')
    return parse_quantity(value, "energy")


Joules = Annotated[
    float,
    BeforeValidator(_read_energy),
    PlainSerializer(lambda value: f"{value!r} J", return_type=str),
    Field(gt=0),
]
"""Energy, in joules."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A share of something, 0 to 1."""

NotNegative = Annotated[float, AfterValidator(_finite), Field(ge=0)]
"""A finite number without a unit, zero or above."""

Fraction = Annotated[float, AfterValidator(_finite), Field(gt=-1, le=1)]
"""Amdahl's sigma."""

Number = TypeVar("Number")


class GivenNumber(Strict, Generic[Number]):
    """A number of a file. `low` and `high` come together; without them it is exact."""

    value: Number  # the number
    low: Number | None = None  # lower end of its interval; comes with `high`
    high: Number | None = None  # upper end of its interval
    origin: Origin  # where it comes from
    how: str = ""  # in words

    @model_validator(mode="after")
    def _in_order(self) -> GivenNumber[Number]:
        if (self.low is None) != (self.high is None):
            raise ValueError("give both low and high, or neither")
        low, value, high = self.ends
        if not low <= value <= high:
            raise ValueError(
                f"low to high ({low:g} to {high:g}) does not contain the value {value:g}"
            )
        return self

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, value, high."""
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        return float(low), float(self.value), float(high)  # type: ignore[arg-type]

    def parameter(self, name: str, least: float = 0.0, most: float = math.inf) -> Parameter:
        """As the models take it; `name` carries the unit."""
        low, value, high = self.ends
        return Parameter(name, value, low, high, self.origin, self.how, least, most)


class Head(Strict):
    """Which machine: nodes of so many cores."""

    name: Name  # what advice calls the machine
    description: str = ""  # in words
    nodes: Count  # how many it has
    cores_per_node: Count  # how many each has


def _above_zero(given: GivenNumber[Watts]) -> GivenNumber[Watts]:
    if given.ends[0] <= 0:
        raise ValueError("reaches down to 0 W; allowed: above 0 W")
    return given


class Power(Strict):
    """Of one node: at most, idle, and while the simulation waits."""

    max: Annotated[GivenNumber[Watts], AfterValidator(_above_zero)]  # of one node
    idle_share: GivenNumber[Share]  # of `max`: an idle node
    blocked_share: GivenNumber[Share]  # of `max`: while the simulation waits
    # Of their own power: what dedicated cores and nodes save as they sleep; 0 where they poll.
    asleep_share: GivenNumber[Share] | None = None


class Storage(Strict):
    """B(w) = min(w client, total / (1 + contention max(0, w - free_writers)))."""

    client: GivenNumber[BytesPerSecond]  # bandwidth of one writer in bytes per second
    total: GivenNumber[BytesPerSecond]  # of all writers together
    contention: GivenNumber[NotNegative]  # what each writer beyond the free ones costs
    free_writers: GivenNumber[NotNegative]  # so many do not disturb each other
    # The dumps that these rates, and times of handing over, are of.
    dump: Annotated[Size, Field(gt=0)] | None = None
    # What a dump takes grows as its bytes to the power of this; comes with `dump`. Otherwise 1.
    size_exponent: GivenNumber[Share] | None = None

    @model_validator(mode="after")
    def _together(self) -> Storage:
        if (self.dump is None) != (self.size_exponent is None):
            raise ValueError("give both dump and size_exponent, or neither")
        return self


class Transfer(Strict):
    """For how long a simulation is held up by handing over a GiB."""

    copy_per_gib: GivenNumber[SecondsOrZero]  # of a node's data to its dedicated cores
    send_per_gib: GivenNumber[SecondsOrZero]  # of what a dedicated node gets
    # Of a computing core's data, before it is handed over.
    make_per_gib: GivenNumber[SecondsOrZero] | None = None
    # For each dump of time partitioning, until all know that it is whole.
    leave: GivenNumber[SecondsOrZero] | None = None


class Model(Strict):
    """How far runs are from the model's equations."""

    # One standard deviation of a run's time or energy from the model at its best, relative.
    discrepancy: GivenNumber[NotNegative]


class PointEntry(Strict):
    """A measured speedup, with its interval."""

    count: Count  # of cores or nodes
    speedup: Speedup  # over one of them
    low: Speedup | None = None  # lower end of its interval
    high: Speedup | None = None  # upper end of its interval


class ScalabilityEntry(Strict):
    """Either `sigma` of Amdahl's form, or measured points that begin with one."""

    sigma: GivenNumber[Fraction] | None = None  # the serial share of Amdahl's form
    # Or measured speedups, beginning with one.
    points: tuple[PointEntry, ...] | None = Field(default=None, strict=False)
    origin: Origin = "measured"  # where it comes from
    how: str = ""  # in words

    @model_validator(mode="after")
    def _one_of(self) -> ScalabilityEntry:
        if (self.sigma is None) == (self.points is None):
            raise ValueError("give either sigma or points")
        if self.points is not None:
            counts = [point.count for point in self.points]
            if counts[:1] != [1] or any(b <= a for a, b in itertools.pairwise(counts)):
                raise ValueError(f"points must have rising counts from 1, not {counts}")
            for point in self.points:
                low, high = point.low or point.speedup, point.high or point.speedup
                if not low <= point.speedup <= high:
                    raise ValueError(f"the speedup on {point.count} is outside its interval")
        return self

    def scalability(self, what: str) -> Scalability:
        """As the models take it."""
        if self.sigma is not None:
            return Form(self.sigma.parameter(f"{what}_sigma", least=-1.0, most=1.0))
        points = self.points or ()
        speedups = [
            Parameter(
                f"{what}_speedup_{point.count}",
                point.speedup,
                point.low or point.speedup,
                point.high or point.speedup,
                self.origin,
                self.how,
            )
            for point in points
        ]
        return Points(what, [point.count for point in points], speedups)


class Compute(Strict):
    """How fast an application computes here without I/O: section 3.3.1 of Dorier et al. 2016."""

    application: Name  # its name
    base: GivenNumber[Seconds]  # one step on one core
    cells: Count | None = None  # of the grid that `base` is of
    cores: ScalabilityEntry  # speedup over the cores of a node
    nodes: ScalabilityEntry  # speedup over nodes


class ObservedEntry(Strict):
    """A run of the application on the platform, of which something is known."""

    approach: str  # "tp", "dc:N", "dn:R"
    iterations: Count  # steps of the run
    output_every: Count  # steps between dumps
    output: Size  # of one dump
    cells: Count | None = None  # of its grid
    energy: Joules | None = None  # of the run
    time: Seconds | None = None  # of the run
    hidden: bool = False  # it took no longer than without I/O
    origin: Origin  # where it comes from
    how: str = ""  # in words
    # One standard deviation, relative: of the run; of run and model without `[model]`.
    error: Annotated[float, Field(ge=0.001, le=1)]

    @model_validator(mode="after")
    def _known(self) -> ObservedEntry:
        if self.energy is None and self.time is None and not self.hidden:
            raise ValueError("no result of the run is given; allowed: energy, time, hidden = true")
        if self.output_every > self.iterations:
            raise ValueError(
                f"output_every: is {self.output_every}, but there are {self.iterations} iterations"
            )
        try:
            approach.parse(self.approach)
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def build(self, application: str) -> Observed:
        """As the models take it."""
        run = Application(application, self.iterations, self.output_every, self.output, self.cells)
        return Observed(
            approach.parse(self.approach),
            run,
            self.error,
            self.energy,
            self.time,
            self.hidden,
        )


class PlatformFile(Strict):
    """A whole `platform.toml`."""

    platform: Head
    power: Power
    storage: Storage
    transfer: Transfer
    compute: Compute
    model: Model | None = None
    observed: tuple[ObservedEntry, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _can_be_built(self) -> PlatformFile:
        # A number may be allowed by its unit, and yet be nothing that the models can draw from.
        self.build()
        return self

    def text(self) -> str:
        """As TOML that reads the same."""
        content = self.model_dump(exclude_none=True)
        content["observed"] = list(content["observed"])
        return toml_text.dump(content)

    def observed_runs(self) -> list[Observed]:
        """Runs that the platform's numbers are to be reconciled with."""
        return [entry.build(self.compute.application) for entry in self.observed]

    def build(self) -> Platform:
        """As the models take it."""
        power, storage, transfer = self.power, self.storage, self.transfer
        if_known = {
            "make_s_per_gib": (transfer.make_per_gib, math.inf),
            "leave_s": (transfer.leave, math.inf),
            "asleep_share": (power.asleep_share, 1.0),
            "size_exponent": (storage.size_exponent, 1.0),
            DISCREPANCY: (None if self.model is None else self.model.discrepancy, math.inf),
        }
        return Platform(
            name=self.platform.name,
            nodes=self.platform.nodes,
            cores=self.platform.cores_per_node,
            application=self.compute.application,
            cores_speedup=self.compute.cores.scalability("cores"),
            nodes_speedup=self.compute.nodes.scalability("nodes"),
            base_cells=self.compute.cells,
            dump_bytes=storage.dump,
            numbers=(
                self.compute.base.parameter("base_s", least=SMALLEST),
                power.max.parameter("power_max_w", least=SMALLEST),
                power.idle_share.parameter("idle_share", most=1.0),
                power.blocked_share.parameter("blocked_share", most=1.0),
                storage.client.parameter("client_bytes_s", least=SMALLEST),
                storage.total.parameter("storage_bytes_s", least=SMALLEST),
                storage.contention.parameter("contention"),
                storage.free_writers.parameter("free_writers"),
                transfer.copy_per_gib.parameter("copy_s_per_gib"),
                transfer.send_per_gib.parameter("send_s_per_gib"),
                *(
                    one.parameter(name, most=most)
                    for name, (one, most) in if_known.items()
                    if one is not None
                ),
            ),
        )


class ApplicationEntry(Strict):
    """What is run: steps, and a dump of `output` bytes each `output_every` of them."""

    name: Name  # what advice calls it
    description: str = ""  # in words
    iterations: Count  # steps in all
    output_every: Count  # steps between dumps
    output: Size  # of one dump
    cells: Count | None = None  # of its grid

    @model_validator(mode="after")
    def _writes(self) -> ApplicationEntry:
        if self.output_every > self.iterations:
            raise ValueError(
                f"output_every: is {self.output_every}, but there are {self.iterations} iterations;"
                f" allowed: 1 to {self.iterations}"
            )
        return self


class ApplicationFile(Strict):
    """A whole `application.toml`."""

    application: ApplicationEntry

    def build(self) -> Application:
        """As the models take it."""
        entry = self.application
        return Application(
            entry.name, entry.iterations, entry.output_every, entry.output, entry.cells
        )


def read_platform(path: Path) -> PlatformFile:
    """Read a `platform.toml`. Raises InputError that names file, line and key."""
    return platform_of(document.read(path))


def platform_of(source: document.Document) -> PlatformFile:
    """As `read_platform`, of a file that has been read."""
    found = document.validate(PlatformFile, source)
    _check_speedups(found, source)
    return found


def _check_speedups(found: PlatformFile, source: document.Document) -> None:
    """Refuse speedups that do not reach to all cores and nodes of the platform.

    Not a validator: what runs of fewer nodes were fitted to may be written for more.
    """
    counts = {"cores": found.platform.cores_per_node, "nodes": found.platform.nodes}
    for what, count in counts.items():
        entry: ScalabilityEntry = getattr(found.compute, what)
        key = "sigma" if entry.sigma is not None else "points"
        form = entry.scalability(what)
        try:
            form.speedup(count, parameter.central(form.parameters))
        except InputError as error:
            told = str(error).removeprefix(f"{what}_sigma: ")
            raise source.error(("compute", what, key), told) from None


def read_application(path: Path) -> Application:
    """Read an `application.toml`. Raises InputError that names file, line and key."""
    return document.validate(ApplicationFile, document.read(path)).build()
