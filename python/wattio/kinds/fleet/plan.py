"""The plan of a fleet: its servers, cut into batches, under every policy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wattio import shipped
from wattio.errors import InputError
from wattio.files.document import Document
from wattio.kinds.fleet import members
from wattio.kinds.fleet.members import Member
from wattio.kinds.fleet.schema import KIND, FleetStudy, GroupEntry, from_document
from wattio.results.plan import Iteration, Plan, digest, file_digest
from wattio.results.runs import Run
from wattio.simulator import profile, saturation, simulation
from wattio.simulator.bounds import Bound, takes_bounds
from wattio.simulator.native import NativeSimulator
from wattio.simulator.policies import REFERENCE
from wattio.simulator.profile import Pattern
from wattio.simulator.simulation import Setting


@dataclass(frozen=True)
class FleetRequest:
    """A batch of servers under one policy: all that a worker needs."""

    servers: Mapping[str, str]
    policy: str
    settings: Mapping[str, Setting]
    bound: str
    noise: bool
    span_s: float
    members: tuple[Member, ...]


class Batch(Iteration[FleetRequest]):
    """An iteration of a fleet: `repetition` is the number of the batch."""

    @property
    def name(self) -> str:
        """How a progress line names it."""
        return f"{self.run.condition}, batch {self.repetition + 1}"


@dataclass(frozen=True)
class FleetPlan(Plan):
    """All batches of a fleet, the servers they are made of, the study with every default."""

    iterations: tuple[Batch, ...]
    study: FleetStudy
    scale: str | None
    servers: dict[str, dict[str, Any]]
    members: tuple[Member, ...]

    kind = KIND

    @property
    def resolved(self) -> dict[str, Any]:
        """The study with every default filled in and its scale applied."""
        plain = self.study.model_dump(mode="json", exclude={"scale"}, exclude_none=True)
        policies = [
            {"name": run.policy, "label": run.condition, "settings": dict(run.settings)}
            for run in self.runs
        ]
        for group in plain["group"]:
            if "traces" not in group:
                del group["rate_scale"], group["segment"]
        return plain | {"policy": policies}

    @property
    def inputs(self) -> dict[str, Any]:
        """The scale, server descriptions, and what was drawn for each server."""
        drawn = [_drawn(member.__dict__) for member in self.members]
        return {"scale": self.scale, "servers": self.servers, "members": drawn}

    @property
    def facts(self) -> dict[str, Any]:
        """The seed."""
        return {"seeds": [self.study.study.seed]}


def _drawn(member: dict[str, Any]) -> dict[str, Any]:
    """What was drawn for a server, without long lists."""
    source = dict(member["source"])
    parts = source.pop("parts", None)
    if parts is not None:
        source["segments"] = len(parts)
    return member | {"source": source}


def make(source: Document, scale: str | None = None) -> FleetPlan:
    """Resolve a fleet into its plan. Raises InputError that names file, line and key."""
    study = from_document(source, scale)
    base = source.path.resolve().parent
    texts: dict[str, str] = {}
    servers: dict[str, dict[str, Any]] = {}
    drawn: list[Member] = []
    for index, group in enumerate(study.group):
        name = (
            str((base / group.server).resolve()) if group.server.endswith(".toml") else group.server
        )
        try:
            texts[name] = simulation.server_text(name)
            servers[name] = NativeSimulator().server(name)
        except InputError as error:
            raise source.error(("group", index, "server"), str(error)) from None
        drawer = _Drawer(source, study, index, name, texts[name], servers[name])
        drawn += drawer.members(len(drawn))
    runs = _runs(source, study, tuple(servers))
    iterations = [
        _batch(study, run, number, batch, texts)
        for run in runs
        for number, batch in enumerate(_batches(study, drawn))
    ]
    return FleetPlan(source, tuple(iterations), study, scale, servers, tuple(drawn))


def _batches(study: FleetStudy, drawn: list[Member]) -> list[tuple[Member, ...]]:
    """Servers that are run together: as many as a batch takes, all held to one bound."""
    size = study.study.batch
    found = []
    for _, alike in itertools.groupby(drawn, lambda member: study.bound_of(member.group)):
        servers = tuple(alike)
        found += [servers[at : at + size] for at in range(0, len(servers), size)]
    return found


def _batch(
    study: FleetStudy,
    run: Run,
    number: int,
    batch: tuple[Member, ...],
    texts: Mapping[str, str],
) -> Batch:
    head = study.study
    named = {member.server for member in batch}
    request = FleetRequest(
        servers={name: text for name, text in texts.items() if name in named},
        policy=run.policy,
        settings=dict(run.settings),
        bound=study.bound_of(batch[0].group),
        # What steers by no latency fares the same on average without noise, and much faster.
        noise=head.noise and takes_bounds(run.policy),
        span_s=head.duration,
        members=batch,
    )
    content = asdict(request)
    for member in content["members"]:
        member["source"].pop("path", None)
        member.pop("server")
    content["servers"] = [texts[member.server] for member in batch]
    content |= {"wattio": version("wattio"), "run": run.condition}
    return Batch(digest(content)[:16], run, head.seed, number, request)


def _runs(source: Document, study: FleetStudy, servers: tuple[str, ...]) -> tuple[Run, ...]:
    """The policies with all their settings, the reference first where the file lacks it."""
    simulator = NativeSimulator()
    bound = Bound.parse(study.study.bound).share or 0.0
    found = []
    for index, entry in enumerate(study.policy):
        try:
            settings = simulator.settings(entry.name, entry.settings)
        except InputError as error:
            raise source.error(("policy", index), str(error)) from None
        found.append((entry.name, entry.shown, settings))
    if not any(name == REFERENCE for name, _, _ in found):
        found.insert(0, (REFERENCE, REFERENCE, simulator.settings(REFERENCE, {})))
    described = ", ".join(servers)
    return tuple(
        Run("fleet", described, label, settings, {"policy": name, "plf": bound})
        for name, label, settings in found
    )


@dataclass(frozen=True)
class _Drawer:
    """Draws the servers of one group."""

    source: Document
    study: FleetStudy
    index: int
    server: str
    text: str
    description: Mapping[str, Any]

    @property
    def group(self) -> GroupEntry:
        return self.study.group[self.index]

    def members(self, first: int) -> list[Member]:
        """All of them; `first` is the number of the first."""
        group = self.group
        if group.day is not None:
            sources = self._days()
        elif group.profile is not None:
            sources = self._profiles()
        else:
            sources = self._traces()
        clients = None if group.open else int(self.description["clients"])
        return [
            Member(first + at, group.name, self.server, seed, clients, dispersion, source)
            for at, (seed, dispersion, source) in enumerate(sources)
        ]

    def _seeds(self) -> list[int]:
        head = self.study.study
        return [members.seed_of(head.seed, self.group.name, at) for at in range(self.group.count)]

    def _rate(self, pattern: Pattern) -> float:
        return saturation.saturated_iops(self.text, pattern, int(self.description["clients"]))

    def _days(self) -> list[tuple[int, float, dict[str, Any]]]:
        day = self.group.day
        assert day is not None
        rates: dict[str, float] = {
            name: self._rate(members.pattern_of(day, name)) for name in day.patterns
        }
        found = []
        for seed in self._seeds():
            drawn, dispersion = members.day_source(day, seed, self.study.study.first_day, rates)
            found.append((seed, dispersion, drawn))
        return found

    def _profiles(self) -> list[tuple[int, float, dict[str, Any]]]:
        day = profile.load(self._located(str(self.group.profile)))
        patterns = {segment.pattern for segment in day.segments if segment.pressure is not None}
        rates = {pattern: self._rate(pattern) for pattern in patterns}
        return [(seed, 1.0, members.profile_source(day, seed, rates)) for seed in self._seeds()]

    def _traces(self) -> list[tuple[int, float, dict[str, Any]]]:
        group = self.group
        folder = self._located(str(group.traces))
        place = ("group", self.index, "traces")
        if not folder.is_dir():
            raise self.source.error(place, f"{folder} is not a folder")
        files = sorted(path for path in folder.iterdir() if _is_trace(path))
        if not files:
            raise self.source.error(place, f"{folder} holds no trace")
        try:
            digests = [file_digest(path) for path in files]
        except OSError as error:
            message = f"{error.filename} cannot be read: {error.strerror}"
            raise self.source.error(place, message) from None
        found = []
        for at, seed in enumerate(self._seeds()):
            which = at % len(files)
            drawn = members.trace_source(
                str(files[which]), digests[which], seed, group.rate_scale, group.segment
            )
            found.append((seed, 1.0, drawn))
        return found

    def _located(self, path: str) -> Path:
        return shipped.located(path, self.source.path.resolve().parent).resolve()


def _is_trace(path: Path) -> bool:
    """Whether a file of a folder of traces is one: no note, table or hidden file beside them."""
    return path.is_file() and not path.name.startswith(".") and path.suffix not in _NOTES


_NOTES = (".md", ".toml", ".json", ".txt", ".py", ".sh")
