"""Checking of files that users write: what they are shows by their content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from wattio import _core
from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import Document, Place, Strict
from wattio.kinds import common
from wattio.kinds.simulation import execute
from wattio.results.runs import Setting
from wattio.simulator import profile, traces
from wattio.simulator.native import Simulator
from wattio.simulator.simulation import reading_of


class _PolicyHead(Strict):
    name: str  # one of `wattio simulate --list`


class PolicyFile(Strict):
    """A policy file: `[policy]` with a name, `[settings]` with what differs from the defaults."""

    policy: _PolicyHead
    settings: dict[str, Setting] = Field(default_factory=dict)  # what differs from its defaults


def check_file(path: Path, simulator: Simulator) -> str:
    """Say in a few words what a file is. Raises InputError where it cannot be used."""
    if path.suffix.lower() == ".xml":
        return _damaris(path)
    source = document.read(path)
    # A study holds [[policy]] too, as an array; it is asked for first.
    for key, check in _CHECKS.items():
        if isinstance(source.content.get(key), dict):
            return check(source, simulator)
    for key, check_list in _LISTS.items():
        if isinstance(source.content.get(key), list):
            return check_list(source)
    for name in _ONE:
        if isinstance(source.content.get(name), list):
            raise source.error((name,), f"must be [{name}] in place of [[{name}]]")
    for name in _SEVERAL:
        if isinstance(source.content.get(name), dict):
            raise source.error((name,), f"must be [[{name}]] in place of [{name}]")
    kinds = ", ".join([*(f"[{key}]" for key in _CHECKS), *(f"[[{key}]]" for key in _LISTS)])
    raise InputError(
        f"{path}: is not a file of wattio: it has none of the tables {kinds};"
        " see wattio check --help"
    )


def _study(source: Document, simulator: Simulator) -> str:
    kind = common.kind_of(source)
    if kind == "fleet":
        from wattio.kinds.fleet import plan as fleets

        found = fleets.make(source)
        count = len(found.members)
        return f"fleet of {count} servers under {len(found.runs)} policies"
    if kind == "measurement":
        return _measurement(source)
    planned = execute.prepare(source, simulator)
    for name, facts in planned.loads.items():
        if facts["kind"] == "trace":
            asked = facts["request"]
            _read_trace(Path(asked["trace"]), asked, source, _load_place(source, name))
    return f"simulation study of {len(planned.iterations)} runs"


def _load_place(source: Document, name: str) -> Place:
    """Where a load stands; those that a folder of traces gives stand in its table."""
    entries = source.content.get("load", [])
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("name") == name:
            return ("load", index, "trace")
    return ("traces",)


def _measurement(source: Document) -> str:
    from wattio.kinds.measurement import disk_space, plan
    from wattio.kinds.measurement.overrides import Asked

    planned = plan.make(source)
    for scale in planned.study.scale:
        plan.make(source, Asked(scale))
    for short in disk_space.shortages(planned):
        raise source.error((short.table, short.index), short.text)
    for index, entry in enumerate(planned.study.workload):
        if entry.module == "trace":
            path = planned.base / str(entry.options["trace"])
            _read_trace(path, entry.options, source, ("workload", index))
    return f"measurement study of {len(planned.iterations)} iterations"


def _read_trace(path: Path, asked: Mapping[str, Any], source: Document, place: Place) -> None:
    """Read a trace from end to end: one that is cut off shows only there. Raises InputError."""
    try:
        traces.of_load(path, **reading_of(asked))
    except InputError as error:
        raise source.error(place, str(error)) from None


def _profile(source: Document, _: Simulator) -> str:
    day = profile.from_document(source)
    return (
        f"profile of {day.span_s / 3600:g} h in {len(day.segments)} segments,"
        f" {day.simulated_s:g} s to simulate"
    )


def _daemon(source: Document, _: Simulator) -> str:
    return _wattiod(source)


def _wattiod(source: Document) -> str:
    _core.check_daemon_config(source.text, str(source.path))
    return f"configuration of wattiod for {source.content['name']}"


def _target(source: Document) -> str:
    exports = _core.check_target_config(source.text, str(source.path))
    count = len(exports)
    return f"configuration of wattio-target with {count} export{'s' if count > 1 else ''}"


def _policy(source: Document, simulator: Simulator) -> str:
    if isinstance(source.content.get("export"), list):
        return _target(source)
    # A daemon's has [latency] in each [[application]], or lacks it, which is its first fault.
    if {"group", "application"} & source.content.keys():
        return _wattiod(source)
    parsed = document.validate(PolicyFile, source)
    try:
        settings = simulator.settings(parsed.policy.name, parsed.settings)
    except InputError as error:
        raise source.error(("policy", "name"), str(error)) from None
    return f"settings of policy {parsed.policy.name}, {len(settings)} with defaults"


def _server(source: Document, simulator: Simulator) -> str:
    try:
        description: dict[str, Any] = simulator.server(str(source.path))
    except InputError as error:
        text = str(error)
        raise InputError(text if str(source.path) in text else f"{source.path}: {text}") from None
    return f"server description {description.get('name', '')}".rstrip()


def _power_model(source: Document, _: Simulator) -> str:
    try:
        model = _core.PowerModel(source.text)
    except InputError as error:
        raise InputError(f"{source.path}: {error}") from None
    facts = json.loads(model.facts())
    origin = "every coefficient measured" if facts["is_measured"] else "not all of it measured"
    return f"power model of {facts['name']}, {origin}"


def _peak(source: Document, _: Simulator) -> str:
    from wattio.peak import file

    content = file.from_document(source)
    return f"theoretical peak of {content.peak.name} from {len(content.part)} parts"


def _platform(source: Document, _: Simulator) -> str:
    from wattio.models.files import platform_of

    found = platform_of(source)
    return f"platform {found.platform.name}, for advice on I/O"


def _application(source: Document, _: Simulator) -> str:
    from wattio.models.files import ApplicationFile

    found = document.validate(ApplicationFile, source)
    return f"application {found.build().name}, for advice on I/O"


def _hpcio(source: Document, _: Simulator) -> str:
    from wattio.hpcio import Config

    found = Config.read(source.path)
    return f"configuration of the I/O middleware, approach {found.approach_text}"


def _damaris(path: Path) -> str:
    from wattio.hpcio import library

    library.check_damaris(path)
    return "description for Damaris, as the I/O middleware reads it"


def _purchases(source: Document) -> str:
    from wattio.models import purchases

    count = len(purchases.from_document(source).purchase)
    return f"{count} purchase{'s' if count > 1 else ''} to choose from, for a cluster"


def _platforms(source: Document) -> str:
    from wattio.kinds.measurement import platform_file

    names = [entry.name for entry in platform_file.from_document(source)]
    return f"platforms to be compared: {', '.join(names)}"


_CHECKS = {
    "study": _study,
    "profile": _profile,
    "peak": _peak,
    "platform": _platform,
    "application": _application,
    "hpcio": _hpcio,
    "latency": _daemon,
    "policy": _policy,
    "cores": _server,
    "core_frequency": _power_model,
    "rest": _power_model,
}
"""What checks a file, by the table that only such a file has."""

_ONE = ("study", "profile", "peak", "hpcio")
_SEVERAL = ("export", "purchase")
"""Of these, who writes them with the other brackets is told so."""

_LISTS = {
    "export": _target,
    "application": _wattiod,
    "purchase": _purchases,
    "platform": _platforms,
}
"""What checks a file, by the list of tables that only such a file has."""
