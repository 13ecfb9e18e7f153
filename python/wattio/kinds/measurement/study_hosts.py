"""The hosts of a study: connected for as long as it measures, looked at and set."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from wattio.clock import Span
from wattio.errors import HostError, HostLost, HostRefused
from wattio.hosts.clocks import Offset
from wattio.hosts.host import Host
from wattio.hosts.hosts import Hosts
from wattio.kinds.measurement import core_time, foreign_load, frequencies
from wattio.kinds.measurement.plan import MeasurementPlan
from wattio.kinds.measurement.schema import KnobEntry
from wattio.kinds.measurement.system_status import Answer
from wattio.knobs import knobs
from wattio.knobs.knobs import Value
from wattio.knobs.texts import here
from wattio.systems.system import System, TakesHosts
from wattio.workloads import KINDS
from wattio.workloads.workload import LOCAL, Place

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DROPPED_S = 300.0
_DROP = "sync && echo 3 > /proc/sys/vm/drop_caches"


@contextlib.contextmanager
def connected(plan: MeasurementPlan) -> Iterator[Hosts | None]:
    """All hosts of a study; None if it names none. Raises HostLost, HostRefused."""
    entry = plan.study.hosts
    if entry is None:
        yield None
        return
    with Hosts([*entry.client_names(), *entry.server_names()], entry.access()) as hosts:
        yield hosts


def give(storage: System, name: str, plan: MeasurementPlan, hosts: Hosts | None) -> System:
    """Tell a system which hosts there are. Raises HostError where it is for this machine only."""
    entry = plan.study.hosts
    if entry is None or hosts is None:
        return storage
    if not isinstance(storage, TakesHosts):
        raise HostError(
            f"system {name}: is brought up only on this machine, but clients are on hosts; mount"
            ' it there and use kind "mounted"'
        )
    return storage.take(hosts, entry.client_names(), entry.server_names())


def looks(plan: MeasurementPlan, hosts: Hosts) -> Iterator[Callable[[], object]]:
    """What to look at before anything is begun; each raises HostError with what is missing."""
    for knob in plan.study.knob:
        for name in _where(plan, knob):
            for value in knob.values:
                yield partial(_settings, hosts[name], knob.name, value)
    for entry in plan.study.workload:
        module = import_module(f"wattio.workloads.{KINDS[entry.module]}")
        needed: Mapping[str, str] | None = getattr(module, "AT_HOSTS", None)
        if needed is None:
            yield partial(_refuse, entry.name, entry.module)
            continue
        if reason := _refused_options(module, entry.options):
            yield partial(_refuse_options, entry.name, reason)
        if needed and plan.study.hosts is not None:
            yield partial(_need, hosts, plan.study.hosts.client_names(), needed)


def runs_there(kind: str) -> bool:
    """Whether a workload's programs are looked for on the clients' hosts, not on this machine."""
    module = import_module(f"wattio.workloads.{KINDS[kind]}")
    return bool(getattr(module, "AT_HOSTS", None))


def _where(plan: MeasurementPlan, knob: KnobEntry) -> list[str]:
    return [] if plan.study.hosts is None else plan.study.hosts.knob_names(knob)


def _settings(host: Host, name: str, value: Value) -> list[tuple[str, str]]:
    """What to write where at a host for a value of a knob. Raises HostError, HostLost."""
    try:
        found = knobs.settings(name, value, host.texts)
    except HostError as error:
        raise HostError(f"{host.name}: {error}") from None
    return [(f"/{path}", text) for path, text in found.items()]


def _refuse(name: str, kind: str) -> None:
    allowed = [
        other
        for other, module in KINDS.items()
        if hasattr(import_module(f"wattio.workloads.{module}"), "AT_HOSTS")
    ]
    raise HostError(
        f"workload {name}: {kind} runs only on this machine, but clients are on hosts; allowed:"
        f" {', '.join(allowed)}"
    )


def _refused_options(module: ModuleType, options: Mapping[str, Any]) -> str | None:
    refused = getattr(module, "refused_at_hosts", None)
    return None if refused is None else refused(module.Options.model_validate(options))


def _refuse_options(name: str, reason: str) -> None:
    raise HostError(f"workload {name}: {reason}, but clients are on hosts")


def _need(hosts: Hosts, names: Sequence[str], needed: Mapping[str, str]) -> None:
    def lacking(host: Host) -> list[str]:
        found = host.ask("which", names=list(needed))
        return [name for name in needed if found[name] is None]

    try:
        missing = {name: one for name, one in hosts.each(lacking, names).items() if one}
    except (HostLost, HostRefused) as error:
        raise HostError(str(error)) from error
    if missing:
        shown = "; ".join(f"{name}: {', '.join(one)}" for name, one in missing.items())
        packages = " ".join(sorted({needed[one] for names in missing.values() for one in names}))
        raise HostError(f"missing on hosts: {shown}; on Debian: apt install {packages}")


def turn(plan: MeasurementPlan, hosts: Hosts | None, values: Mapping[str, Value]) -> None:
    """Set knobs on the hosts that they are for; without values all is as it was.

    A host that is lost, now or before, is left out: what needs it turns out INVALID. Raises
    HostError where a host does not take a value.
    """
    if hosts is None:
        return
    for knob in plan.study.knob:

        def of(host: Host, knob: KnobEntry = knob) -> None:
            with contextlib.suppress(HostLost):
                if values:
                    host.ask("hold", settings=_settings(host, knob.name, values[knob.name]))
                else:
                    host.ask("let_go")

        try:
            hosts.each(of, [name for name in _where(plan, knob) if hosts[name].is_open])
        except HostRefused as error:
            raise HostError(f"{knob.name}: {error}") from error


def turns_here(plan: MeasurementPlan, name: str) -> bool:
    """Whether a knob is set on this machine."""
    (knob,) = (entry for entry in plan.study.knob if entry.name == name)
    return not _where(plan, knob)


def doubts_of(
    plan: MeasurementPlan, span: Span, looks: Sequence[Answer], values: Mapping[str, Value]
) -> Iterator[str]:
    """Where cores ran at another frequency than a knob asked for, on the machines it is set on."""
    for knob in plan.study.knob:
        asked = {name: value for name, value in values.items() if name == knob.name}
        for host in _where(plan, knob) or ("",):
            yield from frequencies.doubts(span, looks, asked, host)


def frequency_look(hosts: Hosts | None) -> frequencies.Look | None:
    """What looks at the frequencies of this machine and of hosts that tell them."""
    own = frequencies.asking(here())

    def of(host: Host) -> frequencies.Look | None:
        return frequencies.asking(host.texts) if host.facts["has_cpufreq"] else None

    found = {} if hosts is None else hosts.answers(of)
    there = {name: look for name, look in found.items() if look is not None}
    if hosts is None or not there:
        return own

    def look() -> Mapping[str, Any]:
        told = hosts.answers(lambda host: there[host.name](), list(there))
        return {**(own() if own is not None else {}), "hosts": told}

    return look


def core_look(hosts: Hosts | None) -> core_time.Look | None:
    """What looks at the cores of other machines; each kernel once, and this one's not at all."""
    if hosts is None:
        return None
    kernels = {host.facts["boot"]: host.name for host in reversed(list(hosts))}
    kernels.pop(_BOOT.read_text().strip(), None)
    asked = hosts.answers(lambda host: core_time.asking(host.texts), list(kernels.values()))
    there = {name: look for name, look in asked.items() if look is not None}
    if not there:
        return None

    def look() -> Mapping[str, Any]:
        return {"hosts": hosts.answers(lambda host: there[host.name](), list(there))}

    return look


def busy(hosts: Hosts | None, servers: Collection[int]) -> dict[str, foreign_load.Look]:
    """What ran so far on this machine (no name) and on each host; one look at each kernel.

    Nodes that share a kernel are one machine, and what a run has on any of them is its own.
    """
    ours = {os.getpid(), *servers}
    found: dict[str, foreign_load.Look | None] = {}
    if hosts is not None:
        kernels: dict[str, list[Host]] = {}
        for host in hosts:
            kernels.setdefault(host.facts["boot"], []).append(host)
        marks = {own[0].name: [host.mark for host in own] for own in kernels.values()}
        running = hosts.answers(lambda host: host.ask("ours", marks=marks[host.name]), list(marks))
        for host in kernels.get(_BOOT.read_text().strip(), ()):
            ours |= set(running.pop(host.name, ()))
        found = hosts.answers(
            lambda host: foreign_load.look(host.texts, running[host.name]), list(running)
        )
    found[""] = foreign_load.look(here(), ours)
    return {name: one for name, one in found.items() if one is not None}


def clocks(hosts: Hosts | None, places: Sequence[Place]) -> dict[str, Offset]:
    """How far the clocks of the places' hosts are ahead. Raises HostLost."""
    names = list(dict.fromkeys(place.host for place in places if place.host != LOCAL))
    return {} if hosts is None or not names else hosts.each(Host.clock, names)


def drop_caches(hosts: Hosts | None, places: Sequence[Place]) -> str | None:
    """Write back and forget the page caches of the places' hosts; why that was not done."""
    names = list(dict.fromkeys(place.host for place in places if place.host != LOCAL))
    if hosts is None or not names:
        return None
    words = ("/bin/sh", "-c", _DROP)
    done = hosts.each(lambda host: host.run(words, timeout_s=_DROPPED_S), names)
    failed = [f"{name}: {ran.last_words()}" for name, ran in done.items() if ran.code != 0]
    return failed[0] if failed else None


def rejoin(hosts: Hosts | None, lost: str) -> Mapping[str, str]:
    """Connect again to hosts that were lost; why not, by name, of those that stay away.

    Raises HostLost for the first of them where the study says that it stops then.
    """
    if hosts is None or all(host.is_open for host in hosts):
        return {}
    away = hosts.reopen()
    if away and lost == "stop":
        raise HostLost(next(iter(away.values())))
    return away
