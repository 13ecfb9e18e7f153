"""The study file: what to run, in TOML.

A simulation study has named loads, policies and, where wanted, sweeps of one setting:

    [study]
    name = "quickstart"
    kind = "simulation"
    seeds = [1]

    [[load]]
    name = "day"
    server = "dorado6000"         # built in, or the path of a server description
                                  # power_model = "power-model.toml" sets its cores' power
    profile = "day.toml"          # or: trace = "...", or: pattern = "Rand_RW", pressure = 0.1,
                                  # or: phases = [{ span = "20 s", pattern = ..., pressure = ... }]
                                  # bounds = ["p99 20% run"] takes the place of the policies' plf

    [[policy]]
    name = "pacer"
    settings = { plf = 0.2 }

    [[sweep]]
    policy = "pacer"              # the label of a policy above
    setting = "plf"
    values = [0.05, 0.1, 0.4]
    loads = ["day"]

Paths are relative to the file; `trace = "pgbench"` is the trace that comes with wattio. The policy
`native` is the reference of every comparison and is added where the file does not name it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from wattio import _core
from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import Document, Strict, nearest
from wattio.files.quantity import Seconds, SecondsOrZero
from wattio.kinds.common import Distinct, Name, PolicyEntry, Scale, Seed, kind_of
from wattio.kinds.simulation import promises, trace_set
from wattio.kinds.simulation.trace_set import TraceSetEntry
from wattio.results.runs import Setting
from wattio.simulator import oracle
from wattio.simulator.profile import PatternName, Pressure, Rate, SegmentEntry
from wattio.simulator.simulation import CLIENTS_MOST

Plf = Annotated[float, Field(gt=0, le=10)]


class SimulationHead(Strict):
    """`[study]` of a simulation study."""

    name: Name  # what results and reports call the study
    kind: Literal["simulation"]  # what kind of study it is
    description: str = ""  # printed in the report
    # Every run is repeated under each of them.
    seeds: Distinct[Seed] = Field(default=[1], min_length=1)
    # A repetition is another draw: it runs under a seed of its own, derived from the given one.
    repetitions: int = Field(default=1, ge=1, le=1000)
    # Span over which latency is averaged, and after which the policy is asked.
    window: Seconds = 0.5
    # The bound by which a policy without a plf of its own is judged, and the oracle's; on loads
    # without bounds of their own.
    plf: Plf = 0.2


_KEYS_OF_SOURCE = {
    "pattern": {"pressure", "iops", "open", "clients"},
    "trace": {"format", "columns", "start", "rate_scale", "time_scale"},
    "profile": {"open", "clients"},
    "phases": {"open", "clients", "repeat"},
}


def _foreign_keys(source: str) -> set[str]:
    """The keys of a load that say nothing about a load from this source."""
    return set().union(*_KEYS_OF_SOURCE.values()) - _KEYS_OF_SOURCE[source]


class LoadEntry(Strict):
    """`[[load]]`: one server under one load; just one of pattern, trace, profile, phases."""

    name: Name  # what results and reports call it
    server: str  # built in, or the path of a server description
    # What `wattio calibrate power` wrote; the power of the server's cores is taken from it.
    power_model: str | None = None
    pattern: PatternName | None = None  # kind of requests, of PACER's Table II
    # Of a pattern: its rate as a share of the rate at which the server saturates.
    pressure: Pressure | None = None
    iops: Rate | None = None  # of a pattern: its rate in requests a second
    # Requests come whatever the server does; else clients wait for their answers.
    open: bool = False
    # How many wait for their answers; the server says how many where nothing is given.
    clients: int | None = Field(default=None, ge=1, le=CLIENTS_MOST)
    trace: str | None = None  # a file of requests, or a trace that comes with wattio
    # Where the trace's format is not found by its content: its name, or what its columns are.
    format: str | None = None
    columns: str | None = None  # what the columns of a trace of text are
    # Left out at the trace's beginning, in its own time.
    start: SecondsOrZero = 0.0
    # Times the trace's rate: a share of its requests, or each several times.
    rate_scale: Scale = 1.0
    time_scale: Scale = 1.0  # times the trace's span: 2 takes twice as long, at half the rate
    profile: str | None = None  # the path of a day profile
    # Pieces of constant load, one after the other.
    phases: list[SegmentEntry] | None = Field(default=None, min_length=1)
    # How often the phases are played, one after the other.
    repeat: int = Field(default=1, ge=1, le=10_000)
    # 10 s, but nothing before a trace, whose beginning would be lost to it.
    warmup: SecondsOrZero | None = None
    # How long after the warm-up; a pattern needs it, the others may end by themselves.
    duration: Seconds | None = None
    # What each policy is told to keep here, and judged by, in place of its plf; as `--bound` of
    # `wattio simulate`: "p99 20% run", "mean 2 ms". Up to three.
    bounds: Distinct[promises.Written] | None = Field(
        default=None, min_length=1, max_length=oracle.BOUNDS_MAX
    )

    @model_validator(mode="after")
    def _consistent(self) -> LoadEntry:
        sources = [key for key in _KEYS_OF_SOURCE if getattr(self, key)]
        if len(sources) != 1:
            given = " and ".join(sources) or "none"
            raise ValueError(f"give exactly one of {', '.join(_KEYS_OF_SOURCE)}; got {given}")
        source = sources[0]
        for key in sorted(_foreign_keys(source) & self.model_fields_set):
            raise ValueError(f"{key} cannot be used with {source}")
        _core.check_trace_reading(self.format, self.columns)
        if source == "pattern":
            if (self.pressure is None) == (self.iops is None):
                raise ValueError("a pattern needs either pressure or iops")
            if self.duration is None:
                raise ValueError("a pattern has no end of its own: duration is required")
        return self

    @property
    def source(self) -> str:
        """Which of pattern, trace, profile and phases it is."""
        return next(key for key in _KEYS_OF_SOURCE if getattr(self, key))

    @property
    def warmup_s(self) -> float:
        """The warm-up, with its default."""
        if self.warmup is None:
            return 0.0 if self.source == "trace" else 10.0
        return self.warmup

    def filled(self) -> dict[str, Any]:
        """The entry as plain data with every default; what does not go with it is left out."""
        foreign = _foreign_keys(self.source)
        whole = self.model_copy(update={"warmup": self.warmup_s})
        shown = whole.model_dump(mode="json", exclude_none=True)
        return {key: value for key, value in shown.items() if key not in foreign}


class SweepEntry(Strict):
    """`[[sweep]]`: one setting of one policy over several values."""

    policy: str  # the label of a policy of this study
    setting: str  # one of its settings
    values: Distinct[Setting] = Field(min_length=1, max_length=1000)  # each is a run of its own
    loads: list[str] | None = None  # the loads that it runs under; all where nothing is given


class SimulationStudy(Strict):
    """A study file of kind "simulation"."""

    study: SimulationHead
    load: list[LoadEntry] = Field(default_factory=list)
    traces: TraceSetEntry | None = None
    policy: list[PolicyEntry] = Field(min_length=1)
    sweep: list[SweepEntry] = Field(default_factory=list)


def from_document(source: Document) -> SimulationStudy:
    """Make a simulation study of a TOML document. Raises InputError: file, line and key."""
    kind = kind_of(source)
    if kind != "simulation":
        raise source.error(("study", "kind"), f"is a {kind}, not a simulation")
    study = _with_traces(document.validate(SimulationStudy, source), source)
    if not study.load:
        raise source.error(("load",), "is required: a study needs at least one load")
    _check_names(study, source)
    return study


def _with_traces(study: SimulationStudy, source: Document) -> SimulationStudy:
    """A study with the loads of its folder of traces, where it names one. Raises InputError."""
    if study.traces is None or study.traces.folder is None:
        return study
    folder = source.path.resolve().parent / study.traces.folder
    try:
        made = trace_set.expand(study.traces, folder)
    except InputError as error:
        raise source.error(("traces", "folder"), str(error)) from None
    loads = [document.check(LoadEntry, load, "traces") for load in made.loads]
    return study.model_copy(update={"load": [*study.load, *loads]})


def _check_names(study: SimulationStudy, source: Document) -> None:
    """Names are unique, and every reference to a load or policy leads somewhere."""
    loads = [entry.name for entry in study.load]
    labels = [entry.shown for entry in study.policy]
    for kind, names in (("load", loads), ("policy", labels)):
        for index, name in enumerate(names):
            if name in names[:index]:
                raise source.error((kind, index), f'"{name}" is already taken by another {kind}')
    references = [
        (kind, index, name)
        for kind, lists in (
            ("policy", [entry.loads for entry in study.policy]),
            ("sweep", [entry.loads for entry in study.sweep]),
        )
        for index, names in enumerate(lists)
        for name in names or []
    ]
    for kind, index, name in references:
        if name not in loads:
            message = f'no load is named "{name}"; ' + nearest(name, loads)
            raise source.error((kind, index, "loads"), message)
    for index, entry in enumerate(study.sweep):
        if entry.policy not in labels:
            message = f'no policy is named "{entry.policy}"; ' + nearest(entry.policy, labels)
            raise source.error(("sweep", index, "policy"), message)
