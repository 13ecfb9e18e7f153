"""The plan of a study: every iteration with its resolved request and its identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wattio import shipped
from wattio.errors import InputError
from wattio.files.document import Document, nearest
from wattio.kinds.common import PolicyEntry
from wattio.kinds.simulation import promises
from wattio.kinds.simulation.schema import LoadEntry, SimulationStudy
from wattio.results.plan import Iteration, Plan, digest, file_digest
from wattio.results.runs import Run
from wattio.simulator import oracle, profile
from wattio.simulator.native import Simulator
from wattio.simulator.policies import BOUND_BY, REFERENCE
from wattio.simulator.profile import SegmentEntry
from wattio.simulator.simulation import Request, Setting

_FILES = ("trace", "profile")
"""Keys of a load's request whose value is the path of a file."""

_SET_ASIDE = ("plf", "statistic")
"""Settings of policies whose place a load's own bounds take."""


@dataclass(frozen=True)
class SimulationPlan(Plan):
    """All iterations of a study, the inputs they read and the study with every default."""

    study: SimulationStudy
    servers: dict[str, dict[str, Any]]
    loads: dict[str, dict[str, Any]]
    filled: dict[str, Any]
    traces: str | None = None  # the folder of `--traces`, which the text of the source names

    kind = "simulation"

    @property
    def resolved(self) -> dict[str, Any]:
        """The study with every default filled in, and paths whole."""
        return self.filled

    @property
    def inputs(self) -> dict[str, Any]:
        """Server descriptions and loads as they were read, and the folder of traces asked for."""
        return {"servers": self.servers, "loads": self.loads, "traces": self.traces}

    @property
    def facts(self) -> dict[str, Any]:
        """The seeds."""
        return {"seeds": self.study.study.seeds}


def make(source: Document, study: SimulationStudy, simulator: Simulator) -> SimulationPlan:
    """Resolve a study into its plan. Raises InputError that names file, line and key."""
    base = source.path.resolve().parent
    policies = _policies(source, study, simulator)
    servers: dict[str, dict[str, Any]] = {}
    loads: dict[str, dict[str, Any]] = {}
    resolved_loads = []
    for index, entry in enumerate(study.load):
        place = ("load", index)
        try:
            server = (
                _located(base, entry.server) if entry.server.endswith(".toml") else entry.server
            )
            if server not in servers:
                servers[server] = simulator.server(server)
        except InputError as error:
            raise source.error((*place, "server"), str(error)) from None
        facts = {"server": server, **_load_facts(base, entry, source, index)}
        if entry.power_model is not None:
            facts["power_model"] = _located(base, entry.power_model)
            try:
                servers[_described(facts)] = simulator.server(server, facts["power_model"])
            except InputError as error:
                raise source.error((*place, "power_model"), str(error)) from None
        loads[entry.name] = facts
        resolved_loads.append(_absolute(base, entry, server))
    # The folder of traces stands there as the loads that were made of it.
    resolved = study.model_dump(mode="json", exclude={"traces"}) | {
        "load": resolved_loads,
        "policy": [entry.model_dump(mode="json") for entry in policies],
    }
    runs = list(_runs(source, study, policies, simulator))
    iterations = tuple(
        _iteration(run, seed, repetition, study, servers, loads)
        for run in runs
        for seed in study.study.seeds
        for repetition in range(study.study.repetitions)
    )
    return SimulationPlan(source, iterations, study, servers, loads, resolved)


def derived_seed(seed: int, repetition: int) -> int:
    """The seed of a repetition: the given one for the first, a hash of both for the others."""
    if repetition == 0:
        return seed
    return int(digest([seed, repetition])[:15], 16)


def _policies(source: Document, study: SimulationStudy, simulator: Simulator) -> list[PolicyEntry]:
    """The study's policies with all their settings, the reference first."""
    policies = []
    for index, entry in enumerate(study.policy):
        given = dict(entry.settings)
        if entry.name == BOUND_BY:
            given.setdefault("plf", study.study.plf)
        try:
            settings = simulator.settings(entry.name, given)
        except InputError as error:
            raise source.error(("policy", index), str(error)) from None
        filled = {"label": entry.shown, "settings": settings}
        policies.append(entry.model_copy(update=filled))
    if not any(entry.name == REFERENCE and entry.loads is None for entry in policies):
        if any(entry.shown == REFERENCE for entry in policies):
            raise source.error(("policy",), f"{REFERENCE} must run on every load: remove its loads")
        settings = simulator.settings(REFERENCE, {})
        policies.insert(0, PolicyEntry(name=REFERENCE, label=REFERENCE, settings=settings))
    return policies


def _runs(
    source: Document,
    study: SimulationStudy,
    policies: list[PolicyEntry],
    simulator: Simulator,
) -> Iterator[Run]:
    """Every load with every policy of it, then every sweep."""
    every = [entry.name for entry in study.load]
    servers = {entry.name: entry.server for entry in study.load}
    bounds = {entry.name: entry.bounds or [] for entry in study.load}
    for load in every:
        for policy in policies:
            if load in (policy.loads or every):
                facts = _facts(policy.name, policy.settings, study, bounds[load])
                yield Run(load, servers[load], policy.shown, policy.settings, facts)
    swept: set[tuple[str, str]] = set()  # A point that two sweeps have is run once.
    for index, sweep in enumerate(study.sweep):
        base = next(entry for entry in policies if entry.shown == sweep.policy)
        if sweep.setting not in base.settings:
            known = sorted(base.settings)
            message = f"{base.name} has no setting {sweep.setting!r}; "
            raise source.error(("sweep", index, "setting"), message + nearest(sweep.setting, known))
        bounded = [load for load in sweep.loads or every if bounds[load]]
        if bounded and sweep.setting in _SET_ASIDE:
            message = f'changes nothing on load "{bounded[0]}": its bounds take its place; name'
            raise source.error(("sweep", index, "setting"), f"{message} other loads in loads")
        for value in sweep.values:
            changed = {**base.settings, sweep.setting: value}
            try:
                settings = simulator.settings(base.name, changed)
            except InputError as error:
                raise source.error(("sweep", index, "values"), str(error)) from None
            for load in sweep.loads or every:
                if settings == base.settings and load in (base.loads or every):
                    continue  # The policy itself is this point of the sweep.
                label = f"{base.shown} {sweep.setting}={value}"
                if any(entry.shown == label for entry in policies):
                    message = f'"{label}" is the label of a policy; give that another one'
                    raise source.error(("sweep", index, "values"), message)
                if (load, label) in swept:
                    continue
                swept.add((load, label))
                facts = _facts(base.name, settings, study, bounds[load])
                facts |= {"sweep_of": base.shown, "sweep_setting": sweep.setting}
                yield Run(load, servers[load], label, settings, facts)


def _facts(
    policy: str, settings: Mapping[str, Setting], study: SimulationStudy, bounds: Sequence[str]
) -> dict[str, Setting]:
    """What a run is of, and what it is held to: bounds that were given, or a plf."""
    if bounds:
        return {"policy": policy, promises.FACT: promises.fact(bounds)}
    facts: dict[str, Setting] = {"policy": policy}
    facts["plf"] = float(settings.get("plf", study.study.plf))
    statistic = settings.get("statistic", promises.MEAN) if policy == BOUND_BY else promises.MEAN
    if statistic != promises.MEAN:
        facts[promises.FACT] = promises.fact([oracle.bound_of(dict(settings))])
    return facts


def _iteration(
    run: Run,
    seed: int,
    repetition: int,
    study: SimulationStudy,
    servers: Mapping[str, Mapping[str, Any]],
    loads: Mapping[str, Mapping[str, Any]],
) -> Iteration[Request]:
    entry = next(entry for entry in study.load if entry.name == run.subject)
    facts = loads[run.subject]
    request = Request(
        server=facts["server"],
        policy=run.policy,
        load=facts["request"],
        settings=dict(run.settings),
        duration_s=entry.duration,
        warmup_s=entry.warmup_s,
        window_s=study.study.window,
        seed=derived_seed(seed, repetition),
        power_model=facts.get("power_model"),
        bounds=tuple(entry.bounds or ()),
    )
    # What a file says decides the result, where it lies does not.
    content = {
        key: value
        for key, value in asdict(request).items()
        if key not in ("server", "load", "power_model")
    }
    content["server"] = servers[_described(facts)]
    asked = {key: value for key, value in facts["request"].items() if key not in _FILES}
    content["load"] = asked | facts["identity"]
    content["wattio"] = version("wattio")
    # The same request may stand in a study twice, under two labels or seeds.
    content["run"] = [run.subject, run.condition, seed, repetition]
    return Iteration(digest(content)[:16], run, seed, repetition, request)


def _described(facts: Mapping[str, Any]) -> str:
    """What the description of a load's server is called among those of a plan."""
    model = facts.get("power_model")
    return str(facts["server"]) if model is None else f"{facts['server']} with {model}"


def _load_facts(base: Path, entry: LoadEntry, source: Document, index: int) -> dict[str, Any]:
    """What a load asks of the simulator, what identifies it, and what a report says about it."""
    clients: dict[str, Any] = {"open": True} if entry.open else {}
    if entry.clients is not None:
        clients["clients"] = entry.clients
    if entry.pattern is not None:
        key = "pressure" if entry.pressure is not None else "iops"
        rate = entry.pressure if entry.pressure is not None else entry.iops
        request = {"pattern": entry.pattern, key: rate, **clients}
        return {"kind": "pattern", "request": request, "identity": {}}
    if entry.phases is not None:
        phases = [_phase(segment) for segment in entry.phases] * entry.repeat
        return {"kind": "phases", "request": {"phases": phases, **clients}, "identity": {}}
    path = _located(base, str(entry.trace or entry.profile))
    if entry.trace:
        try:
            identity = {"trace": file_digest(Path(path))}
        except OSError as error:
            message = f"{path} cannot be read: {error.strerror}"
            raise source.error(("load", index, "trace"), message) from None
        request = {
            "trace": path,
            "rate_scale": entry.rate_scale,
            "time_scale": entry.time_scale,
        }
        given = {"format": entry.format, "columns": entry.columns}
        request |= {key: value for key, value in given.items() if value is not None}
        if entry.start:
            request["start_s"] = entry.start
        return {"kind": "trace", "request": request, "identity": identity}
    try:
        day = profile.load(Path(path))
    except InputError as error:
        raise source.error(("load", index, "profile"), str(error)) from None
    facts = {"name": day.name, "span_s": day.span_s, "simulated_s": day.simulated_s}
    facts |= {"compression": day.compression, "represent_s": day.represent_s}
    facts["segments"] = [asdict(segment) for segment in day.segments]
    request = {"profile": path, **clients}
    return {"kind": "profile", "request": request, "identity": facts, "profile": facts}


def _phase(entry: SegmentEntry) -> dict[str, Any]:
    """A phase as `simulation.Request` takes it."""
    optional = {"pressure": entry.pressure, "iops": entry.iops}
    optional["read_fraction"] = entry.read_fraction
    optional["io_bytes"] = None if entry.io_bytes is None else round(entry.io_bytes)
    given = {key: value for key, value in optional.items() if value is not None}
    return {"span_s": entry.span, "pattern": entry.pattern, **given}


def _absolute(base: Path, entry: LoadEntry, server: str) -> dict[str, Any]:
    """A load as `resolved.toml` shows it: with every default, and with whole paths."""
    shown = entry.filled() | {"server": server}
    return shown | {
        key: _located(base, shown[key]) for key in (*_FILES, "power_model") if key in shown
    }


def _located(base: Path, path: str) -> str:
    return str(shipped.located(path, base).resolve())
