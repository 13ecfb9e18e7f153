"""The hosts of a study: connected for as long as it measures, and looked at before."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module

from wattio.errors import HostError, HostLost, HostRefused
from wattio.hosts.clocks import Offset
from wattio.hosts.host import Host
from wattio.hosts.hosts import Hosts
from wattio.kinds.measurement.plan import MeasurementPlan
from wattio.systems.system import System, TakesHosts
from wattio.workloads import KINDS
from wattio.workloads.workload import LOCAL, Place

_DROPPED_S = 300.0
_DROP = "sync && echo 3 > /proc/sys/vm/drop_caches"


@contextlib.contextmanager
def connected(plan: MeasurementPlan) -> Iterator[Hosts | None]:
    """All hosts of a study; None where it names none. Raises HostLost, HostRefused."""
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
            f"system {name}: is brought up on this machine only, and clients are on hosts; mount it"
            ' there, and take kind "mounted"'
        )
    return storage.take(hosts, entry.client_names(), entry.server_names())


def looks(plan: MeasurementPlan, hosts: Hosts) -> Iterator[Callable[[], object]]:
    """What to look at before anything is begun; each raises HostError with what is missing."""
    for entry in plan.study.workload:
        module = import_module(f"wattio.workloads.{KINDS[entry.module]}")
        needed: Mapping[str, str] | None = getattr(module, "AT_HOSTS", None)
        if needed is None:
            yield partial(_refuse, entry.name, entry.module)
        elif needed and plan.study.hosts is not None:
            yield partial(_need, hosts, plan.study.hosts.client_names(), needed)


def runs_there(kind: str) -> bool:
    """Whether a workload's programs are looked for on the clients' hosts, not on this machine."""
    module = import_module(f"wattio.workloads.{KINDS[kind]}")
    return bool(getattr(module, "AT_HOSTS", None))


def _refuse(name: str, kind: str) -> None:
    allowed = [
        other
        for other, module in KINDS.items()
        if hasattr(import_module(f"wattio.workloads.{module}"), "AT_HOSTS")
    ]
    raise HostError(
        f"workload {name}: {kind} runs on this machine only, and clients are on hosts; allowed are"
        f" {', '.join(allowed)}"
    )


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
