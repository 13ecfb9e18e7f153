"""What a measurement needs of this machine and of hosts, looked at before anything is begun."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from wattio.errors import HostError, HostLost, HostRefused, InputError, WattioError
from wattio.files.document import Document
from wattio.hosts.hosts import Hosts
from wattio.kinds.measurement import disk_space, study_hosts
from wattio.kinds.measurement import plan as planning
from wattio.kinds.measurement.derive import WITNESS_NAME
from wattio.kinds.measurement.overrides import Asked
from wattio.kinds.measurement.plan import MeasurementPlan, Measuring
from wattio.kinds.measurement.schema import SystemEntry
from wattio.kinds.measurement.verdicts import WITNESS
from wattio.knobs import knobs
from wattio.meters import open_meter
from wattio.recording import Source
from wattio.systems import claims
from wattio.systems.system import System


def probe(plan: MeasurementPlan, scratch: Path) -> None:
    """Look whether programs, systems, knobs, meters and room are there, before anything is begun.

    Raises HostError with what is missing, MeterRefused and MeterLost with a meter's own words.
    """
    try:
        with study_hosts.connected(plan) as hosts:
            for look in _looks(plan, scratch, hosts):
                look()
    except (HostLost, HostRefused) as error:
        raise HostError(str(error)) from error


def probe_left(plan: MeasurementPlan, left: Sequence[Measuring], scratch: Path) -> None:
    """Look in the same way for what the iterations that are left of a stopped run need."""
    systems = {item.run.system for item in left}
    loads = {item.run.subject for item in left}
    needed = {
        "system": [entry for entry in plan.study.system if entry.name in systems],
        "workload": [entry for entry in plan.study.workload if entry.name in loads],
    }
    probe(replace(plan, study=plan.study.model_copy(update=needed)), scratch)


def plan_of(
    source: Document, asked: Asked, scratch: Path
) -> tuple[MeasurementPlan, Mapping[str, str]]:
    """A study planned with what is there; the optional systems that are not, and why not.

    Raises InputError, and HostError where hosts do not answer.
    """
    plan = planning.make(source, asked)
    away = _absent(plan, scratch)
    return planning.make(source, replace(asked, without=tuple(away))) if away else plan, away


def _absent(plan: MeasurementPlan, scratch: Path) -> dict[str, str]:
    optional = [entry for entry in plan.study.system if entry.optional]
    found: dict[str, str] = {}
    if not optional:
        return found
    try:
        with study_hosts.connected(plan) as hosts:
            for entry in optional:
                try:
                    _probe(entry, plan, hosts, scratch)
                except HostError as error:
                    found[entry.name] = str(error)
    except (HostLost, HostRefused) as error:
        raise HostError(str(error)) from error
    return found


def lacking(plan: MeasurementPlan, scratch: Path) -> list[str]:
    """All that `probe` would refuse, in words; the same only once."""
    found: dict[str, None] = {}
    try:
        with study_hosts.connected(plan) as hosts:
            for look in _looks(plan, scratch, hosts):
                try:
                    look()
                except (HostError, InputError, WattioError) as error:
                    found[str(error)] = None
    except (HostLost, HostRefused) as error:
        found[str(error)] = None
    return list(found)


def lacking_without_scale(
    plan: MeasurementPlan, scratch: Path, there: Collection[str]
) -> list[str]:
    """What the study would lack, beside what is `there`, without a scale that may leave it out."""
    if plan.asked.scale is None:
        return []
    whole = planning.make(plan.source, replace(plan.asked, scale=None))
    return [text for text in lacking(whole, scratch) if text not in there]


def _looks(
    plan: MeasurementPlan, scratch: Path, hosts: Hosts | None
) -> Iterator[Callable[[], object]]:
    for knob in plan.study.knob:
        if study_hosts.turns_here(plan, knob.name):
            for value in knob.values:
                yield partial(knobs.assignments, knob.name, value)
    for entry in plan.study.workload:
        if hosts is None or not study_hosts.runs_there(entry.module):
            yield plan.work(entry).probe
    if hosts is not None:
        yield from study_hosts.looks(plan, hosts)
    for system in plan.study.system:
        yield partial(_probe, system, plan, hosts, scratch)
    if hosts is None:
        yield partial(_room, plan, scratch)
    for source in sources(plan):
        yield partial(_reading, source.name)


def _room(plan: MeasurementPlan, scratch: Path) -> None:
    for short in disk_space.shortages(plan, scratch):
        raise HostError(f"{short.table} {short.name}: {short.text}")


def _reading(name: str) -> None:
    with contextlib.closing(open_meter(name)) as meter:
        meter.read()


def _probe(entry: SystemEntry, plan: MeasurementPlan, hosts: Hosts | None, scratch: Path) -> None:
    storage_of(entry, scratch / entry.folder, plan, hosts).probe()


def storage_of(
    entry: SystemEntry, scratch: Path, plan: MeasurementPlan, hosts: Hosts | None
) -> System:
    """A system of a study, not brought up yet. Raises HostError where hosts do not suit it."""
    storage = claims.storage(entry.module, entry.options, scratch)
    return study_hosts.give(storage, entry.name, plan, hosts)


def sources(plan: MeasurementPlan) -> list[Source]:
    """The study's meters, and the witness where none of them is an estimate."""
    found = [
        Source(entry.shown, entry.name, None if entry.period is None else 1 / entry.period)
        for entry in plan.study.meter
    ]
    if any(source.label == WITNESS for source in found):
        raise InputError(f'the label "{WITNESS}" is taken; give that meter another one')
    if not any(entry.name.startswith("estimate:") for entry in plan.study.meter):
        found.append(Source(WITNESS, WITNESS_NAME))
    return found
