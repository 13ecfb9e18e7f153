"""The study file of a measurement: systems, workloads, knobs and meters, in TOML.

    [study]
    name = "disk"
    kind = "measurement"
    repetitions = 5
    clients = [1, 2, 4]
    idle_before = "60 s"              # ready-idle: served, not asleep; before and after

    [[system]]
    name = "local"                    # kind = "local" where it is not given

    [[workload]]
    name = "posix"
    kind = "mpi_io"
    options = { total = "36 GiB", transfer = "4 MiB" }

    [[knob]]
    name = "cpu.frequency"
    values = ["0.8 GHz", "3.6 GHz"]

    [[meter]]
    name = "snmp://public@pdu/apc-rpdu2?outlet=3"
    label = "pdu"
    covers = ["server", "switch"]     # devices; two totals never cover the same one

    [[meter]]
    name = "estimate:assumed"
    covers = ["server"]
    role = "beside"                   # shown beside the total, never added to it

    [[subtract]]
    device = "switch"
    power = "15.46 W"
    source = "its mean over an idle hour"

    [scale.small.study]               # what `--scale small` changes
    repetitions = 2
    [scale.small.workload.posix]      # keys of the workload of this name; likewise system
    options = { total = "64 MiB" }    # options that are not named here stay
    # Lists are taken whole: knob = [] below [scale.small] sweeps nothing.

    [hosts]                           # clients and servers on other machines
    clients = "node[1-4]"
    servers = "node[5-9]"

    [platform]                        # for `wattio compare --platforms`
    name = "arm"
    price_eur = 1350.0
    priced = "nodes and disks, as they were bought in 2021"

Paths are relative to the file.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from wattio.files import document
from wattio.files.document import Document, Place, Strict, nearest
from wattio.files.quantity import Seconds, SecondsOrZero, Watts
from wattio.hosts.host import Access
from wattio.hosts.names import expand, expand_within
from wattio.kinds.common import Distinct, Name
from wattio.kinds.measurement.platform_file import PlatformEntry
from wattio.knobs.knobs import Value

KIND = "measurement"

IDLE = "idle"
"""Load of the iterations in which the system is served and nothing is asked of it."""

Clients = Annotated[int, Field(ge=1, le=4096)]
Weight = Annotated[int, Field(ge=1, le=8)]
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$")]


class Head(Strict):
    """`[study]` of a measurement."""

    name: Name  # what results and reports call the study
    kind: Literal["measurement"]  # what kind of study it is
    description: str = ""  # printed in the report
    repetitions: int = Field(default=3, ge=1, le=1000)  # iterations of each cell
    # Numbers of clients; a workload may have its own.
    clients: Distinct[Clients] = Field(default=[1], min_length=1)
    # Within a system, and one system after the other; or repetition by repetition with systems and
    # workloads mixed, each brought up for itself, so that no drift of the machine is for one alone.
    order: Literal["random", "sequential", "interleaved"] = "random"
    seed: int = Field(default=1, ge=0, lt=2**63)  # the order is drawn from it
    # Ready-idle, served but asked nothing: before each system's iterations.
    idle_before: SecondsOrZero = 60.0
    idle_after: SecondsOrZero = 60.0  # the same after them
    # How often each workload runs on a system that just came up, before anything is measured.
    warm_up: int = Field(default=0, ge=0, le=100)
    # Waited before each step, after caches are dropped.
    settle: SecondsOrZero = 5.0
    # Empty the page cache before each step; needs root, and is a doubt without.
    drop_caches: bool = True
    # How often an iteration is repeated that turned out INVALID.
    repeat_invalid: int = Field(default=1, ge=0, le=100)
    # Weights w of the energy-delay products E t^w.
    edp_weights: Distinct[Weight] = Field(default=[1, 2], min_length=1)
    # A file of `wattio peak`, so that results carry their share of the theoretical peak.
    peak: str | None = None


class Rules(Strict):
    """`[rules]`: when an iteration is doubtful (WARN) or not to be used (INVALID)."""

    samples_min: int = Field(default=60, ge=2)  # LOW_N: a phase has fewer samples of power
    # GAP: a meter said nothing for more of its intervals.
    gap_intervals: float = Field(default=2.0, ge=1)
    # MISSING: a larger share of a phase's samples is missing. LOST: a counter was lost for more.
    missing_share_max: float = Field(default=0.01, ge=0, lt=1)
    # FROZEN: a meter showed one value for so many of its periods while the load changed.
    frozen_periods: int = Field(default=20, ge=2)
    clock_jump: Seconds = 0.1  # CLOCK: the wall clock jumped by more
    # CLOCKS: a host's clock is off this machine's by more, or went another way by more meanwhile.
    clock_offset: Seconds = 0.05
    # Of the time of all cores: what processes that are not measured may take of it in a step.
    others_share_max: float = Field(default=0.02, ge=0, le=1)


def _names(text: str) -> str:
    expand(text)
    return text


HostNames = Annotated[str, AfterValidator(_names)]


class HostsEntry(Strict):
    """`[hosts]`: the machines that clients, and servers, are on; reached by OpenSSH."""

    # Those of the clients, as in "node[1-4]": the first client is on the first, and so on, and
    # again from the first where there are more clients.
    clients: HostNames
    servers: HostNames | None = None  # for systems that are brought up on hosts of their own
    # Options of ssh, such as ["-F", "ssh_config"]. Keys of hosts have to be known, and nothing is
    # asked: no password, no passphrase.
    ssh: list[str] = Field(default_factory=list)
    python: str = "python3"  # the Python of the hosts, 3.8 or newer; wattio brings the rest
    # A host that has heard nothing for so long undoes what was done there.
    lease: Annotated[Seconds, Field(ge=2, le=3600)] = 20.0
    # When a host is lost and does not come back: stop, to be resumed; or go on without it, where
    # what needs it turns out INVALID.
    lost: Literal["stop", "go on"] = "stop"

    def client_names(self) -> list[str]:
        """The clients' hosts, one by one."""
        return expand(self.clients)

    def server_names(self) -> list[str]:
        """The servers' hosts, one by one."""
        return expand(self.servers) if self.servers is not None else []

    def knob_names(self, entry: KnobEntry) -> list[str]:
        """The hosts that a knob is set on; none where it is set on this machine."""
        if entry.on == "here":
            return []
        wanted = entry.on or ("servers" if self.servers is not None else "clients")
        return self.server_names() if wanted == "servers" else self.client_names()

    def access(self) -> Access:
        """How they are reached."""
        return Access(tuple(self.ssh), self.python, self.lease)


class SystemEntry(Strict):
    """`[[system]]`: a storage system under test, with its own options."""

    name: Name  # what results and reports call it
    kind: str | None = None  # which system; its name where nothing is given
    # What the others are compared with (the best of the peers), what is compared, and what is shown
    # beside them and cannot win, such as a limit.
    role: Literal["peer", "own", "beside"] = "peer"
    # Where it is not there: left out of the study, which is told, in place of refusing all of it.
    optional: bool = False
    options: dict[str, Any] = Field(default_factory=dict)  # what this kind of system takes

    @property
    def module(self) -> str:
        """Which kind of system it is."""
        return self.kind or self.name

    @property
    def folder(self) -> str:
        """Its name as that of a folder which every program takes, and no other system has."""
        plain = re.sub("[^A-Za-z0-9._-]", "-", self.name)
        mark = hashlib.sha256(self.name.encode()).hexdigest()[:6]
        return plain if plain == self.name else f"{plain}-{mark}"


class WorkloadEntry(Strict):
    """`[[workload]]`: what is run on it, and by how many clients where not by the study's."""

    name: Name  # what results and reports call it
    kind: str | None = None  # which workload; its name where nothing is given
    options: dict[str, Any] = Field(default_factory=dict)  # what this kind of workload takes
    # In place of the study's.
    clients: Distinct[Clients] | None = Field(default=None, min_length=1)
    systems: list[str] | None = None  # the systems that it runs on; all where nothing is given

    @property
    def module(self) -> str:
        """Which kind of workload it is."""
        return self.kind or self.name


class KnobEntry(Strict):
    """`[[knob]]`: something that is set before an iteration, and the values to try."""

    name: str  # such as `cpu.frequency`
    # Each is set for iterations of its own.
    values: Distinct[Value] = Field(min_length=1, max_length=1000)
    # Where: on this machine ("here"), or on hosts. Where there are hosts: on the servers, or where
    # none are named on the clients, if nothing is given.
    on: Literal["here", "clients", "servers"] | None = None


def label_of(device: str) -> str:
    """The label of a meter that is a device's own: its name as far as a label takes it."""
    return re.sub("[^A-Za-z0-9_-]", "-", device)[:32]


class MeterEntry(Strict):
    """`[[meter]]`: a power meter by its URL-shaped name, and the devices it covers."""

    # A URL-shaped name, as `wattio meter list` shows it.
    name: Annotated[str, Field(pattern=r"^[a-z0-9]+:")]
    label: Label | None = None  # what results and reports call it; its kind where nothing is given
    covers: list[Name] = Field(default_factory=list)  # devices whose power it tells
    # One meter for each of these devices, as in "node[1-9]"; the name has as many numbers in
    # brackets, as in "snmp://public@pdu/apc-rpdu2?outlet=[1-9]". In place of `covers` and `label`.
    each: HostNames | None = None
    # The energy of a phase is the sum over the totals; others are shown beside it.
    role: Literal["total", "beside"] = "total"
    # How often it is read; as often as it has something new where nothing is given.
    period: Seconds | None = None
    accuracy_class: str | None = None  # as its maker states it; told in the report
    # How much later than the power itself its readings are.
    lag: SecondsOrZero | None = None

    @property
    def shown(self) -> str:
        """Its label, or its kind where it has none."""
        return self.label or self.name.partition(":")[0]

    @model_validator(mode="after")
    def _one_or_each(self) -> MeterEntry:
        if self.each is None:
            if not self.covers:
                raise ValueError("covers: names no device that it measures")
            return self
        if self.covers or self.label is not None:
            raise ValueError("each: names the devices; remove covers and label")
        self.apart()
        return self

    def apart(self) -> list[MeterEntry]:
        """The meters that it stands for: itself, or one for each device. Raises ValueError."""
        if self.each is None:
            return [self]
        devices, names = expand(self.each), expand_within(self.name)
        if len(devices) != len(names):
            raise ValueError(f"each: {len(devices)} devices, but {len(names)} names of meters")
        return [
            self.model_copy(
                update={"name": name, "label": label_of(device), "covers": [device], "each": None}
            )
            for name, device in zip(names, devices, strict=True)
        ]


class SubtractEntry(Strict):
    """`[[subtract]]`: a device whose power is taken off, in a figure beside the gross one."""

    device: Name  # one that a total covers
    power: Watts  # what it draws
    source: str  # where that is known from


class MeasurementStudy(Strict):
    """A study file of kind "measurement"."""

    study: Head
    platform: PlatformEntry | None = None
    hosts: HostsEntry | None = None
    system: list[SystemEntry] = Field(min_length=1)
    workload: list[WorkloadEntry] = Field(min_length=1)
    knob: list[KnobEntry] = Field(default_factory=list)
    meter: list[MeterEntry] = Field(min_length=1)
    subtract: list[SubtractEntry] = Field(default_factory=list)
    rules: Rules = Field(default_factory=Rules)
    # By name, what `--scale NAME` changes.
    scale: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _something_to_sum(self) -> MeasurementStudy:
        if not any(meter.role == "total" for meter in self.meter):
            raise ValueError('no meter is a total: give one of them role = "total"')
        return self


@dataclass(frozen=True)
class _ScaledDocument(Document):
    """A study with the changes of a scale: an error in one of these is told with its place."""

    scale: str

    def told(self, place: Place, message: str) -> str:
        """A message that names the file, and line and key as they were written."""
        return super().told(self._written(place), message)

    def _written(self, place: Place) -> Place:
        """A place below the scale, where the scale gives the value; else the place itself."""
        inside: Place = ("scale", self.scale, *place)
        if place[:1] in (("workload",), ("system",)) and len(place) > 1:
            name = self.content[str(place[0])][place[1]].get("name")
            inside = ("scale", self.scale, place[0], name, *place[2:])
        given: Any = self.content
        for part in inside:
            try:
                given = given[part]
            except (KeyError, IndexError, TypeError):
                return place
        return inside


def from_document(source: Document, scale: str | None = None) -> MeasurementStudy:
    """Make a study of a TOML document, with the changes of a scale. Raises InputError."""
    study = document.validate(MeasurementStudy, source)
    if scale is not None:
        if scale not in study.scale:
            known = ", ".join(study.scale) or "none"
            raise source.error(("scale",), f'has no scale "{scale}"; allowed: {known}')
        study = document.validate(MeasurementStudy, with_scale(source, scale))
    meters = [one for entry in study.meter for one in entry.apart()]
    study = study.model_copy(update={"meter": meters})
    _check_names(study, source)
    _check_topology(study, source)
    _check_knobs(study, source)
    return study


def with_scale(source: Document, scale: str) -> Document:
    """A study's document with the changes of a scale that it has. Raises InputError."""
    content = _scaled(source, source.content["scale"][scale], scale)
    return _ScaledDocument(source.path, source.text, content, scale)


def _scaled(source: Document, changes: Mapping[str, Any], scale: str) -> dict[str, Any]:
    """The document's content with what a scale changes.

    Keys of [study], [platform], [hosts] and [rules], keys and options of workloads and systems by
    name, whole lists.
    """
    content = copy.deepcopy(dict(source.content))
    for part, tables in changes.items():
        place: Place = ("scale", scale, part)
        if isinstance(tables, list):
            content[part] = tables
        elif part in ("study", "platform", "rules", "hosts"):
            content[part] = {**content.get(part, {}), **_table(source, place, tables)}
        elif part in ("workload", "system"):
            names = [entry["name"] for entry in content[part]]
            for name, given in _table(source, place, tables).items():
                if name not in names:
                    raise source.error(
                        (*place, name), f"no {part} has this name; " + nearest(name, names)
                    )
                keys = _table(source, (*place, name), given)
                changed = _table(source, (*place, name, "options"), keys.get("options", {}))
                entry = content[part][names.index(name)]
                entry |= {**keys, "options": {**entry.get("options", {}), **changed}}
        else:
            known = ("study", "platform", "rules", "hosts", "system", "workload")
            raise source.error(place, "cannot be scaled; " + nearest(part, known))
    return content


def _table(source: Document, place: Place, value: object) -> dict[str, Any]:
    """What has to be a table of a scale. Raises InputError."""
    if not isinstance(value, dict):
        raise source.error(place, f"is {value!r}; must be a table")
    return value


def _check_names(study: MeasurementStudy, source: Document) -> None:
    """Names are unique, and references lead somewhere."""
    lists: dict[str, Sequence[str]] = {
        "system": [entry.name for entry in study.system],
        "workload": [entry.name for entry in study.workload],
        "knob": [entry.name for entry in study.knob],
        "meter": [entry.shown for entry in study.meter],
    }
    for kind, names in lists.items():
        for index, name in enumerate(names):
            if name in names[:index]:
                hint = "; give it a label of its own" if kind == "meter" else ""
                message = f'"{name}" is already taken by another {kind}{hint}'
                raise source.error((kind, index), message)
    for index, entry in enumerate(study.workload):
        if entry.name == IDLE:
            message = (
                f'"{IDLE}" is what iterations of the idle system are called (idle_before,'
                f' idle_after); give it another name, and kind = "{entry.module}"'
            )
            raise source.error(("workload", index, "name"), message)
        for name in entry.systems or []:
            if name not in lists["system"]:
                message = f'no system is named "{name}"; ' + nearest(name, lists["system"])
                raise source.error(("workload", index, "systems"), message)


def _check_knobs(study: MeasurementStudy, source: Document) -> None:
    """Knobs on hosts have some."""
    for index, entry in enumerate(study.knob):
        there = entry.on in (None, "here") or (
            study.hosts is not None and (entry.on == "clients" or study.hosts.servers is not None)
        )
        if not there:
            message = f"is for the hosts of {entry.on}, but [hosts] names none"
            raise source.error(("knob", index, "on"), message)


def _check_topology(study: MeasurementStudy, source: Document) -> None:
    """No device is counted twice, and only what is covered is taken off."""
    covered: dict[str, str] = {}
    for index, meter in enumerate(study.meter):
        if meter.role != "total":
            continue
        for device in meter.covers:
            if device in covered:
                message = (
                    f'"{device}" is also covered by {covered[device]} and would be counted twice;'
                    ' give one of them role = "beside"'
                )
                raise source.error(("meter", index, "covers"), message)
            covered[device] = meter.shown
    for index, entry in enumerate(study.subtract):
        if entry.device not in covered:
            message = f'no total covers "{entry.device}"; ' + nearest(entry.device, list(covered))
            raise source.error(("subtract", index, "device"), message)
