"""The study file of kind "fleet": which servers, under which loads, under which policies.

    [study]
    name = "fleet"
    kind = "fleet"
    duration = "7 d"              # what each server is run over, from the beginning of first_day
    first_day = "monday"
    seed = 1
    bound = "mean 20%"            # what laws that can are told to keep, and all are judged by

    [price]
    electricity_eur_per_kwh = 0.25
    co2_g_per_kwh = 350.0
    pue = 1.4                     # power of the building over power of the servers

    [[group]]
    name = "databases"
    count = 120
    server = "small"              # built in, or the path of a server description
    day = { pressure_median = 0.05, swing = 0.6 }   # a statistical mix; see DayEntry
                                  # or: profile = "day.toml", or: traces = "folder"
    bound = "p99 2 ms"            # in place of the study's

    [[policy]]
    name = "pacer"
    settings = { plf = 0.2 }

    [scale.full]                  # what `--scale full` changes
    servers = 10000               # the groups grow in proportion
    duration = "7 d"

Paths are relative to the file. The policy `native` is what every other one is compared with and is
added where the file does not name it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from wattio.analysis.price import Price
from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import Document, Strict, nearest
from wattio.files.quantity import Bytes, Seconds, Size, Watts
from wattio.kinds.common import Name, PolicyEntry, Scale, Seed
from wattio.simulator.bounds import Bound
from wattio.simulator.profile import Fraction, PatternName, Pressure

KIND = "fleet"

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

Day = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Factor = Annotated[float, Field(ge=1, le=100)]
Hour = Annotated[float, Field(ge=0, lt=24)]

_STATISTICS = ("mean", "p99")
"""What a bound of a fleet may be on: what is kept of each server."""


def _of_a_fleet(text: str) -> str:
    """A bound that servers of a fleet can be held to. Raises ValueError."""
    try:
        bound = Bound.parse(text)
    except InputError:
        bound = None
    if bound is None or bound.statistic not in _STATISTICS or bound.scope != "run":
        raise ValueError(
            f'"{text}": allowed are the mean or the p99 over the run, a share over full speed'
            ' (0.1% to 1000%) or a time (1 us to 1000 s), such as "mean 20%" or "p99 2 ms"'
        )
    return text


BoundText = Annotated[str, AfterValidator(_of_a_fleet)]


class FleetHead(Strict):
    """`[study]` of a fleet."""

    name: Name  # what results and reports call the study
    kind: Literal["fleet"]  # what kind of study it is
    description: str = ""  # printed in the report
    seed: Seed = 1  # what is drawn depends on it
    duration: Seconds = 86400.0  # what each server is run over
    first_day: Day = "monday"  # the day it begins with
    bound: BoundText = "mean 20%"  # what laws that can are told to keep, and all are judged by
    # Whether counts and means of a window are drawn for policies that steer by them.
    noise: bool = True
    # Servers in a batch: what is done, kept and resumed as one.
    batch: int = Field(default=20, ge=1, le=10_000)

    @model_validator(mode="after")
    def _long_enough(self) -> FleetHead:
        if not 3600 <= self.duration <= 366 * 86400:
            raise ValueError("duration: allowed is 1 h to 366 d")
        return self


class PriceEntry(Strict):
    """`[price]`: what a kilowatt-hour costs."""

    # Price of electricity in EUR/kWh.
    electricity_eur_per_kwh: float = Field(default=Price.electricity_eur_per_kwh, ge=0, le=100)
    co2_g_per_kwh: float = Field(default=Price.co2_g_per_kwh, ge=0, le=10_000)  # emission in g/kWh
    # Power of the building over power of the servers.
    pue: float = Field(default=Price.pue, ge=1, le=5)

    @property
    def factors(self) -> Price:
        """The same as what calculates with them."""
        return Price(self.electricity_eur_per_kwh, self.co2_g_per_kwh, self.pue)


class PlacingEntry(Strict):
    """`[placing]`: the estimate of what load on fewer servers would add."""

    # No server is filled beyond this share of its saturated rate, at its busiest.
    pressure_max: Pressure = 0.5
    # What a server that is switched off draws.
    off_power: Watts = 10.0
    # Data that moves with a server's load, how fast, and what moving draws on both sides together.
    data: Size = 20 * 2.0**40
    rate: Size = 2.0**30  # how much of it moves in a second
    moving_power: Watts = 100.0  # what moving draws on both sides together
    # How long a placement stays before it is moved again.
    stays: Seconds = 30 * 86400.0


class DayEntry(Strict):
    """`day`: days and weeks drawn from distributions, one course for each server.

    A server's pressure is lognormal over the group; over its day it swings as a cosine around its
    busiest hour, and wanders (a first-order autoregression of its logarithm, step by step).
    """

    # Median over the servers of the mean pressure of a weekday; most lie within one factor.
    pressure_median: Pressure = 0.06
    pressure_factor: Factor = 2.0  # most servers lie within one such factor of the median
    pressure_max: Pressure = 0.8  # no moment is above it
    swing: Fraction = 0.6  # of the mean: how far a day goes up and down
    busiest_hour: Hour = 14.0  # its mean over the servers
    # Its standard deviation over the servers, in hours.
    busiest_hour_deviation: float = Field(default=2.0, ge=0, le=12)
    # Saturday and Sunday as a share of a weekday.
    weekend: float = Field(default=0.5, ge=0, le=10)
    # Standard deviation of the logarithm by which a rate wanders.
    wander: float = Field(default=0.15, ge=0, le=2)
    step: Seconds = 900.0  # rates are constant for so long
    # Variance over mean of the requests in half a second, drawn from 1 to this (evenly in logs).
    burstiness_max: float = Field(default=1.0, ge=1, le=10_000)
    # Each server has one of them.
    patterns: list[PatternName] = Field(default=["Rand_RW"], min_length=1)
    io_bytes: Bytes | None = None  # size of a request, in place of the pattern's


class GroupEntry(Strict):
    """`[[group]]`: servers that are alike; just one of day, profile, traces."""

    name: Name  # what results and reports call it
    count: Count  # how many servers
    server: str  # built in, or the path of a server description
    day: DayEntry | None = None  # days that are drawn
    # A day profile as simulations take it, here at full length, each server begins elsewhere in it.
    profile: str | None = None
    # A folder of traces, one for each server in turn, each repeated to the end.
    traces: str | None = None
    rate_scale: Scale = 1.0  # times the traces' rates
    segment: Seconds = 1.0  # traces are cut into pieces of constant rate, each so long
    # Requests come whatever the server does; else clients wait for their answers.
    open: bool = False
    bound: BoundText | None = None  # in place of the study's

    @model_validator(mode="after")
    def _one_source(self) -> GroupEntry:
        given = [key for key in ("day", "profile", "traces") if getattr(self, key) is not None]
        if len(given) != 1:
            shown = " and ".join(given) or "none"
            raise ValueError(f"give exactly one of day, profile, traces; got {shown}")
        if given != ["traces"]:
            for key in sorted({"rate_scale", "segment"} & self.model_fields_set):
                raise ValueError(f"{key} is only for traces")
        return self


class ScaleEntry(Strict):
    """`[scale.NAME]`: what `--scale NAME` changes."""

    description: str | None = None  # in place of the study's
    servers: Count | None = None  # the groups grow or shrink to so many together
    duration: Seconds | None = None  # in place of the study's
    batch: int | None = Field(default=None, ge=1, le=10_000)  # in place of the study's


class FleetStudy(Strict):
    """A study file of kind "fleet"."""

    study: FleetHead
    price: PriceEntry = PriceEntry()
    placing: PlacingEntry | None = PlacingEntry()
    group: list[GroupEntry] = Field(min_length=1)
    policy: list[PolicyEntry] = Field(min_length=1)
    # By name, what `--scale NAME` changes.
    scale: dict[str, ScaleEntry] = Field(default_factory=dict)

    @property
    def servers(self) -> int:
        """How many servers there are."""
        return sum(group.count for group in self.group)

    def bound_of(self, name: str) -> str:
        """The bound of the servers of a group, by its name."""
        own = next(group.bound for group in self.group if group.name == name)
        return self.study.bound if own is None else own

    @property
    def bounds(self) -> dict[str, list[str]]:
        """Every bound that servers are held to, and the groups that are."""
        found: dict[str, list[str]] = {}
        for group in self.group:
            found.setdefault(self.bound_of(group.name), []).append(group.name)
        return found

    @property
    def bounds_told(self) -> str:
        """The bound; where groups differ, each with its groups."""
        if len(self.bounds) == 1:
            return next(iter(self.bounds))
        return "; ".join(f"{bound} ({', '.join(of)})" for bound, of in self.bounds.items())


def from_document(source: Document, scale: str | None = None) -> FleetStudy:
    """Make a fleet of a TOML document, with the changes of a scale. Raises InputError."""
    study = document.validate(FleetStudy, source)
    for kind, names in (
        ("group", [entry.name for entry in study.group]),
        ("policy", [entry.shown for entry in study.policy]),
    ):
        for index, name in enumerate(names):
            if name in names[:index]:
                raise source.error((kind, index), f'"{name}" is already taken by another {kind}')
    for index, entry in enumerate(study.policy):
        if entry.loads is not None:
            raise source.error(
                ("policy", index, "loads"), "a fleet runs each policy on all of it; remove loads"
            )
        if entry.name == "oracle":
            raise source.error(("policy", index, "name"), "the oracle is only for simulations")
    return study if scale is None else _scaled(source, study, scale)


def _scaled(source: Document, study: FleetStudy, scale: str) -> FleetStudy:
    if scale not in study.scale:
        hint = nearest(scale, list(study.scale)) if study.scale else "the study defines none"
        raise InputError(f'{source.path}: has no scale "{scale}"; {hint}')
    change = study.scale[scale]
    given = change.model_dump(include={"description", "duration", "batch"}, exclude_none=True)
    head = study.study.model_copy(update=given)
    groups = study.group
    if change.servers is not None:
        counts = _shares([group.count for group in groups], change.servers)
        pairs = zip(groups, counts, strict=True)
        groups = [group.model_copy(update={"count": count}) for group, count in pairs]
    return study.model_copy(update={"study": head, "group": groups})


def _shares(counts: list[int], total: int) -> list[int]:
    """Whole numbers in proportion to `counts` that add up to `total` (or to one for each)."""
    ends = [sum(counts[: index + 1]) * total / sum(counts) for index in range(len(counts))]
    edges = [0, *(round(end) for end in ends)]
    return [max(1, edges[index + 1] - edges[index]) for index in range(len(counts))]
