"""Measuring the parts: which steps there are, running them one after another, and their rates."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from wattio.analysis.peak import QUANTITIES, Quantity, Rate
from wattio.errors import HostError, InputError
from wattio.peak import fio, folders, network
from wattio.peak.file import PartEntry, RateEntry, key_of
from wattio.peak.folders import Folder
from wattio.peak.hosts import Host
from wattio.peak.programs import Programs
from wattio.peak.rates import combine
from wattio.peak.servers import Server, serving
from wattio.workloads import processes

NEEDS = {
    "fio": "Debian: apt install fio",
    "iperf3": "Debian: apt install iperf3",
    "ping": "Debian: apt install iputils-ping",
    "ssh": "Debian: apt install openssh-client",
    "nsenter": "Debian: apt install util-linux",
}
"""Programs, and how to get them."""


@dataclass(frozen=True)
class Settings:
    """How long and how often; the thesis's in `full`, a trial in `trial`."""

    runtime_s: int
    network_runtime_s: int
    repetitions: int
    network_repetitions: int
    disk_bytes: int

    @classmethod
    def trial(cls) -> Settings:
        """Enough to see an order of magnitude: a few minutes for everything."""
        return cls(5, 5, 3, 3, 1 * fio.GIB)

    @classmethod
    def full(cls) -> Settings:
        """Appendix A and section 4.3 of the thesis: 600 s of fio, three times 180 s of iperf."""
        return cls(600, 180, 1, 3, 16 * fio.GIB)


@dataclass(frozen=True)
class Targets:
    """What to measure: the clients, memory in a folder of each, servers, folders on disks."""

    clients: tuple[Host, ...] = (Host(),)
    memory: str | None = "/dev/shm"  # noqa: S108 (a tmpfs is what is measured)
    servers: tuple[Server, ...] = ()
    disks: tuple[Folder, ...] = ()

    def missing(self) -> list[str]:
        """What will not be measured, and how it would be."""
        found = []
        if self.memory is None:
            found.append("client memory: left out on request")
        if not self.servers:
            found.append("network: no --server was given")
        if not self.disks:
            found.append("disks: no --device-folder was given")
        return found

    @property
    def one_node(self) -> str | None:
        """The name of the only node that both the network and disks lead to; None for several.

        One server and the disks of one host are the two halves of one node, whatever they are
        called here.
        """
        hosts = {disk.host.name for disk in self.disks}
        return next(iter(hosts)) if len(hosts) == len(self.servers) == 1 else None


@dataclass(frozen=True)
class Step:
    """One measurement, all its repetitions: what it is called, how long it takes, how it is done.

    `measure` is called for each repetition, and gives a rate for each of the step's units.
    """

    name: str
    seconds: float
    quantities: tuple[Quantity, ...]
    repetitions: int
    units: tuple[PartEntry, ...]
    measure: Callable[[], list[Rate]] = field(repr=False)


Note = Callable[[str, float, float], None]
"""Told before each repetition: the step's name, seconds done, seconds in all."""


def probe(targets: Targets) -> None:
    """Raise HostError where a program is missing here: all that are, and how to get them."""
    hosts = [*targets.clients, *(disk.host for disk in targets.disks)]
    hosts += [server.host for server in targets.servers if server.own]
    needed = []
    if any(not host.remote for host in hosts):
        needed += ["fio"] if targets.memory or targets.disks else []
        needed += ["iperf3", "ping"] if targets.servers else []
    needed += ["ssh"] if any(host.remote for host in hosts) else []
    needed += ["nsenter"] if any(h.name.startswith("netns:") for h in hosts) else []
    lacking = []
    for name in needed:
        try:
            processes.find(name, NEEDS[name])
        except HostError as error:
            lacking.append(str(error))
    if lacking:
        raise HostError("; ".join(lacking))


def measure(
    targets: Targets, settings: Settings, scratch: Path, cancelled: threading.Event, note: Note
) -> list[PartEntry]:
    """Measure all parts, one step after another; the disks of one host at once.

    Raises HostError for missing programs, InputError for folders that cannot be used,
    WorkloadFailed for a program that failed and Cancelled. Files that were made are removed, and
    own servers ended, on every way out.
    """
    if not targets.servers and not targets.disks:
        raise InputError(
            "without the network or disks there is no peak: give --server, --device-folder or both,"
            " as in wattio peak --device-folder /data --server loopback"
        )
    probe(targets)
    programs = Programs(scratch, cancelled)
    _check_folders(targets, settings, programs)
    rates: dict[PartEntry, dict[Quantity, Rate]] = {}
    with ExitStack() as stack:
        steps = [
            *_memory_steps(targets, settings, programs, stack, note),
            *_network_steps(targets, settings, programs, stack),
            *_disk_steps(targets, settings, programs, stack, note),
        ]
        total_s = sum(step.seconds * step.repetitions for step in steps)
        done_s = 0.0
        for step in steps:
            repeated = []
            for _ in range(step.repetitions):
                note(step.name, done_s, total_s)
                repeated.append(step.measure())
                done_s += step.seconds
            for unit, *values in zip(step.units, *repeated, strict=True):
                for quantity in step.quantities:
                    rates.setdefault(unit, {})[quantity] = combine(values)
    return [_with_rates(unit, found) for unit, found in rates.items()]


def _check_folders(targets: Targets, settings: Settings, programs: Programs) -> None:
    """Raise InputError for a folder that cannot be used, before anything is made in another."""
    if targets.memory is not None:
        for host in targets.clients:
            folders.check_memory(Folder(host, targets.memory), programs)
    for host in dict.fromkeys(disk.host for disk in targets.disks):
        places = [disk for disk in targets.disks if disk.host == host]
        folders.check_disks(places, settings.disk_bytes, programs)


def _with_rates(unit: PartEntry, found: dict[Quantity, Rate]) -> PartEntry:
    entries = {
        key_of(quantity): RateEntry(mean=rate.mean, deviation=rate.deviation, n=rate.n)
        for quantity, rate in found.items()
    }
    return unit.model_copy(update=entries)


def _memory_steps(
    targets: Targets, settings: Settings, programs: Programs, stack: ExitStack, note: Note
) -> Iterator[Step]:
    if targets.memory is None:
        return
    how = f"fio on tmpfs, 4 x 4 MiB blocks, 8 x 1 B at random, {settings.runtime_s} s"
    for host in targets.clients:
        place = Folder(host, targets.memory)
        made = stack.enter_context(folders.made(place, programs))
        note(f"laying out files in the memory of {host.name}", 0.0, 0.0)
        programs.say(host, fio.memory_layout(made))
        unit = PartEntry(
            kind="memory", node=f"client {host.name}", where=place.path, origin="measured", how=how
        )
        for quantity in QUANTITIES:

            def run(
                host: Host = host, made: str = made, quantity: Quantity = quantity
            ) -> list[Rate]:
                words = fio.memory(made, quantity, settings.runtime_s)
                return list(fio.rates(programs.say(host, words), quantity).values())

            name = f"memory of {host.name}, {_spoken(quantity)}"
            yield Step(name, settings.runtime_s, (quantity,), settings.repetitions, (unit,), run)


def _network_steps(
    targets: Targets, settings: Settings, programs: Programs, stack: ExitStack
) -> Iterator[Step]:
    if not targets.servers:
        return
    seconds, times = settings.network_runtime_s, settings.network_repetitions
    open_ = {server: stack.enter_context(serving(server, programs)) for server in targets.servers}
    clients = itertools.cycle(targets.clients)
    for server, (address, port) in open_.items():
        client = next(clients)
        node = targets.one_node or server.host.name
        how = f"iperf3, one TCP stream from {client.name}, {seconds} s"
        unit = PartEntry(kind="network", node=node, where=address, origin="measured", how=how)
        for quantity in QUANTITIES[:2]:
            words = network.client(address, quantity.direction, seconds, port)

            def run(client: Host = client, words: tuple[str, ...] = words) -> list[Rate]:
                # iperf3 tells errors in its JSON, with an exit code of 0 or 1.
                return [network.throughput(programs.say(client, words, success=(0, 1)))]

            name = f"network to {server.name}, {_spoken(quantity)}"
            yield Step(name, seconds, (quantity,), times, (unit,), run)
    # Each client counts: the I/Os per second of the network are those of one process on each.
    servers = itertools.cycle(open_.items())
    for client in targets.clients:
        server, (address, _) = next(servers)
        node = targets.one_node or server.host.name
        how = f"ping, one after another, from {client.name}, {seconds} s"
        unit = PartEntry(kind="network", node=node, where=address, origin="measured", how=how)
        words = network.round_trips(address, seconds)

        def ping(client: Host = client, words: tuple[str, ...] = words) -> list[Rate]:
            return [network.iops(programs.say(client, words, success=(0, 1)))]

        name = f"network to {server.name}, message pairs from {client.name}"
        yield Step(name, seconds, QUANTITIES[2:], times, (unit,), ping)


def _disk_steps(
    targets: Targets, settings: Settings, programs: Programs, stack: ExitStack, note: Note
) -> Iterator[Step]:
    hosts = dict.fromkeys(disk.host for disk in targets.disks)
    for host in hosts:
        places = [disk for disk in targets.disks if disk.host == host]
        made = [stack.enter_context(folders.made(place, programs)) for place in places]
        note(f"laying out files on the disks of {host.name}", 0.0, 0.0)
        programs.say(host, fio.layout(made, settings.disk_bytes))
        how = (
            f"fio on files, direct, libaio, depth 32, 4 MiB in order, 2 x 4 KiB at random,"
            f" {settings.runtime_s} s, all disks at once"
        )
        units = tuple(
            PartEntry(kind="disk", node=host.name, where=disk.path, origin="measured", how=how)
            for disk in places
        )
        for quantity in QUANTITIES:
            words = fio.disks(made, quantity, settings.runtime_s, settings.disk_bytes)

            def run(
                host: Host = host,
                words: tuple[str, ...] = words,
                quantity: Quantity = quantity,
                count: int = len(made),
            ) -> list[Rate]:
                found = fio.rates(programs.say(host, words), quantity)
                return [found[f"disk{place}"] for place in range(count)]

            name = f"disks of {host.name}, {_spoken(quantity)}"
            yield Step(name, settings.runtime_s, (quantity,), settings.repetitions, units, run)


def _spoken(quantity: Quantity) -> str:
    measure = "IOPS" if quantity.measure == "iops" else "throughput"
    return f"{quantity.direction} {measure}"
