"""What file systems of servers and clients share: options, nodes, mounts, and their end.

Everything lies below the scratch folder (data in `data`, if folders are given), and what cannot lie
there bears its mark, so that two can run side by side and what a killed run has left is found.
Nodes are reached by `systems/nodes.py` only.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from wattio.errors import HostError, SystemFailed
from wattio.files.document import Strict
from wattio.hosts.hosts import Hosts
from wattio.systems import commands
from wattio.systems.commands import remove_if_empty, wait_until
from wattio.systems.mounts import Mount
from wattio.systems.networks import (
    NODES_MAX,
    Loopback,
    Namespaces,
    Network,
    parse_rate,
    parse_subnet,
)
from wattio.systems.nodes import Node
from wattio.systems.there import OnHosts
from wattio.workloads.workload import Place

READY_S = 60.0
"""How long servers may take to serve, and a mount to show their space."""

STOP_S = 40.0
"""How long servers may take to end by themselves; MooseFS takes 8 to 9 s."""

_UNMOUNTED_S = 5.0
"""How long the program of a mount that was taken away may take to see it."""

_ON_HOSTS = Path("/var/tmp")  # noqa: S108 (a folder of root's, made by the agent)

_DROP_CACHES = Path("/proc/sys/vm/drop_caches")

_LOG_LINES = 2
"""How much of a log is told; its lines are long."""


def _subnet(text: str) -> str:
    return str(parse_subnet(text))


def _rate(text: str) -> str:
    parse_rate(text)
    return text


class ClusterOptions(Strict):
    """What all of them take: network, folders for data, mounts, and who pays for deletes."""

    # All on loopback addresses, or each in a namespace of its own.
    network: Literal["loopback", "namespaces"] = "loopback"
    # A free one of 10.77.x.0/24 on loopback, 10.79.0.0/24 between namespaces.
    subnet: Annotated[str, AfterValidator(_subnet)] | None = None
    # Rate of each namespace's leg to the bridge, in each direction.
    leg: Annotated[str, AfterValidator(_rate)] = "1 Gbit/s"
    # One folder for each data server, on the disks to be measured; below scratch if none.
    data: list[str] = Field(default_factory=list)
    # Further options of the mounts.
    mount_options: list[str] = Field(default_factory=list)
    # Deletes that servers still do when a step has ended: part of its last phase, of none, or left
    # to run beside what follows, which is doubtful then.
    deletes: Literal["charged", "waited", "left"] = "charged"

    @property
    def data_servers(self) -> int:
        """How many servers keep data."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _data_agrees(self) -> ClusterOptions:
        if self.data and len(self.data) != self.data_servers:
            raise ValueError(f"data: {len(self.data)} folders for {self.data_servers} servers")
        for folder in self.data:
            if not Path(folder).is_absolute():
                raise ValueError(f'data: "{folder}" must be absolute, as in "/disk1/data"')
        if len(set(self.data)) != len(self.data):
            raise ValueError("data: each server needs a folder of its own")
        return self


@dataclass(frozen=True)
class Daemon:
    """A server: as messages name it, its node and program, and a folder that it alone names.

    `log` is the file of its last words, where it keeps one.
    """

    part: str
    node: int
    program: str
    folder: Path
    log: Path | None = None


class Cluster(ABC):
    """A file system of servers and clients, below a scratch folder."""

    name: ClassVar[str]
    title: ClassVar[str]
    programs: Mapping[str, str]  # what is needed, and the package of each
    file_systems: Collection[str]  # how kernels name the type of such a mount
    servers: ClassVar[Collection[str]]
    mounter: str | None  # the program of a client's mount; None if it is the kernel

    def __init__(self, options: ClusterOptions, scratch: Path, managers: int) -> None:
        """Nothing is made before `deploy`. Nodes: managers, data servers, clients."""
        self._shared = options
        self._managers = managers
        self._root = scratch.resolve() / self.name
        mark = hashlib.sha256(str(self._root).encode()).hexdigest()[:6]
        self._mark = mark
        self._mounts = self._root / "clients"
        own = [Path(folder).resolve() / f"wattio-{mark}" for folder in options.data]
        self._data = own or [self._root / f"data{number}" for number in self._numbers()]
        loopback = Loopback(mark, options.subnet)
        namespaces = Namespaces(mark, options.subnet, parse_rate(options.leg))
        # A run before this one may have had the other.
        self._networks: tuple[Network, ...] = (loopback, namespaces)
        self._network: Network = self._networks[options.network == "namespaces"]
        self._points: list[Path] = []
        self._hosts: OnHosts | None = None

    def take(self, hosts: Hosts, clients: Sequence[str], servers: Sequence[str]) -> Self:
        """Servers and clients are on these hosts. Raises HostError where none are for servers.

        Everything lies below a folder of theirs, as paths of this machine mean nothing there.
        """
        if not servers:
            raise HostError(
                f"{self.title} needs hosts of its own, and the study names none; add servers ="
                ' "node[5-9]" below [hosts]'
            )
        self._root = _ON_HOSTS / f"wattio-{self._mark}" / self.name
        self._mounts = self._root / "clients"
        if not self._shared.data:
            self._data = [self._root / f"data{number}" for number in self._numbers()]
        self._hosts = OnHosts(hosts, servers, clients, self._client_node(1), self._root.parent)
        self._network = self._hosts
        self._networks = (self._hosts,)
        return self

    @abstractmethod
    def _configure(self) -> None:
        """Write what the servers are started with; their nodes are there."""

    @abstractmethod
    def start(self) -> None:
        """Start the servers; wait until they serve. Raises SystemFailed with their last words."""

    @abstractmethod
    def _daemons(self) -> Sequence[Daemon]:
        """All servers that have to run."""

    @abstractmethod
    def _mount(self, number: int, node: Node, point: Path) -> None:
        """Mount it for a client, whose node and folder are there."""

    @abstractmethod
    def _source(self) -> str:
        """What the source of a mount of it begins with: it tells it from others of its type."""

    @abstractmethod
    def _facts(self) -> Mapping[str, Any]:
        """What `describe` tells beside options, network and disks."""

    @abstractmethod
    def _deletes_left(self) -> int | None:
        """How much of what was deleted servers have still to remove; None if they do not say."""

    def _heals_left(self) -> int:
        """What else servers still do by themselves."""
        return 0

    def deletes_left(self) -> int | None:
        """How much of what was deleted is still there; None if servers do not say.

        A deleted file stays while a client holds on to it, and its kernel does so by having its
        name in a cache. Where something is left, names that nobody uses are forgotten.
        """
        left = self._deletes_left()
        if left:
            self._release()
        return left

    def _release(self) -> None:
        """Have clients let go of deleted files, which they would do at some time."""
        for machine in self._network.machines():
            machine.write(_DROP_CACHES, "2\n")

    def unsettled(self) -> int | None:
        """Deletes, and what else servers do by themselves."""
        left = self.deletes_left()
        return None if left is None else left + self._heals_left()

    @property
    def deletes(self) -> Literal["charged", "waited", "left"]:
        """Who pays for deletes that are still under way when a step has ended."""
        return self._shared.deletes

    def probe(self) -> None:
        """Raise HostError where root, FUSE or a package is missing."""
        for machine in self._network.machines():
            fuse = self.mounter is not None
            machine.need({**self.programs, **self._network.programs}, fuse=fuse)
        for number, folder in enumerate(self._shared.data, start=1):
            self._need_folder(self._data_node(number), folder)

    def _need_folder(self, node: int, folder: str) -> None:
        """Raise HostError where what servers keep things in is not there."""
        if self._hosts is not None:
            at = f"{self._hosts.name(node)}: "
            there = self._network.node(node).answer("stat", folder) is not None
        else:
            at, there = "", Path(folder).is_dir()
        if not there:
            raise HostError(f"{at}{folder}: is not a folder; data is to be kept there")

    def _folders(self) -> list[Path]:
        """All that it has on machines, besides its network."""
        return [self._root, *self._data]

    def deploy(self) -> None:
        """Make network and configuration; what a dead run has left is removed first."""
        self.clean()
        self._network.up()
        for number in range(1, self._managers + 1):
            self._network.add(number)
        for number, data in zip(self._numbers(), self._data, strict=True):
            self._network.add(self._data_node(number))
            self._network.node(self._data_node(number)).folder(data)
        self._configure()

    def _numbers(self) -> range:
        return range(1, self._shared.data_servers + 1)

    def _data_node(self, number: int) -> int:
        return self._managers + number

    def _client_node(self, number: int) -> int:
        return self._managers + self._shared.data_servers + number

    def _client(self, number: int) -> Node:
        return self._network.node(self._client_node(number))

    def _begin(self, daemons: Mapping[Daemon, Sequence[str]]) -> None:
        """Start servers that do not run, side by side, each by a command that leaves it behind."""
        left = [daemon for daemon in daemons if not self._runs(daemon)]

        def start(daemon: Daemon) -> None:
            self._network.node(daemon.node).call(daemon.part, *daemons[daemon])

        commands.together([partial(start, daemon) for daemon in left])

    def _runs(self, daemon: Daemon) -> bool:
        return bool(self._network.node(daemon.node).running([daemon.program], daemon.folder))

    def mount(self, clients: int) -> Sequence[Place]:
        """Mount it for each client, by a process (and, with namespaces, in a network) of its own.

        All see the same files.
        """
        most = NODES_MAX - self._client_node(0)
        if clients > most:
            raise SystemFailed(f"at most {most} clients can have an address")
        self._points = [self._mounts / str(number) for number in range(1, clients + 1)]
        for number, point in enumerate(self._points, start=1):
            if self._mounted(number, point):
                continue
            self._network.add(self._client_node(number))
            node = self._client(number)
            node.folder(point)
            self._mount(number, node, point)
            if not wait_until(lambda: self._serves(number, point), READY_S):  # noqa: B023
                self._check_daemons()
                raise SystemFailed(
                    f"client {number}: {point} has no space after {READY_S:g} s: "
                    + commands.last_words(node.tail(self._client_log(number)))
                )
        if self._hosts is None:
            return [Place(point) for point in self._points]
        names = [self._hosts.name(self._client_node(at)) for at in range(1, clients + 1)]
        return [Place(point, name) for point, name in zip(self._points, names, strict=True)]

    def _client_log(self, number: int) -> Path:
        return self._root / f"client{number}" / "mount.log"

    def _serves(self, number: int, point: Path) -> bool:
        return self._mounted(number, point) and self._answers(self._client(number), point)

    def _answers(self, node: Node, point: Path) -> bool:
        """Whether a mount that is there has servers behind it: it shows their space."""
        return bool(_blocks(node, point))

    def _mounted(self, number: int, point: Path) -> bool:
        """Whether the last thing that was mounted on a folder is this file system."""
        found = [mount for mount in self._client(number).mounts(point) if mount.point == point]
        return bool(found) and self._is_own(found[0])

    def _is_own(self, mount: Mount) -> bool:
        return mount.file_system in self.file_systems and mount.source.startswith(self._source())

    def verify_mount(self) -> None:
        """Raise SystemFailed where a server has gone, or a client's folder is no mount with space.

        The server first: it is why mounts do not answer.
        """
        if not self._points:
            raise SystemFailed(f"{self.title} is not mounted")
        self._check_daemons()
        for number, point in enumerate(self._points, start=1):
            node = self._client(number)
            if not self._mounted(number, point):
                raise SystemFailed(f"client {number}: {self.title} is not mounted on {point}")
            if self.mounter is not None and not node.running([self.mounter], point):
                words = commands.last_words(node.tail(self._client_log(number)), _LOG_LINES)
                raise SystemFailed(f"client {number}: {self.mounter} has ended: {words}")
            if not self._answers(node, point):
                raise SystemFailed(f"client {number}: {point} does not answer or has no space")

    def _check_daemons(self) -> None:
        for daemon in self._daemons():
            if not self._runs(daemon):
                raise self._ended(daemon)

    def _ended(self, daemon: Daemon) -> SystemFailed:
        """That a server has gone, with its last words."""
        words = "see the system's log"
        if daemon.log is not None:
            told = self._network.node(daemon.node).tail(daemon.log)
            words = commands.last_words(told, _LOG_LINES)
        return SystemFailed(f"{daemon.part}: {daemon.program} has ended: {words}")

    def describe(self) -> dict[str, Any]:
        """Versions, servers, replication, network, and the disks below."""
        nodes = [self._network.node(self._data_node(number)) for number in self._numbers()]
        below = [node.disk(data) for node, data in zip(nodes, self._data, strict=True)]
        # Servers that share a disk do not add to the capacity.
        disks = {str(one.get("device", one.get("mount_point"))): one for one in below}
        facts = {
            **self._shared.model_dump(mode="json", exclude={"data", "subnet"}),
            "file_system": next(iter(self.file_systems)),
            "subnet": str(self._network.subnet()),
            "disks": list(disks.values()),
            "raw_capacity_bytes": sum(one["raw_capacity_bytes"] for one in disks.values()),
            **self._facts(),
        }
        if self._hosts is not None:
            facts["network"] = "hosts"
        if facts["network"] != "namespaces":
            del facts["leg"]
        return {key: value for key, value in facts.items() if value is not None}

    def processes(self) -> list[int]:
        """Servers and mounts, of this machine."""
        if self._hosts is not None:
            return []
        found: set[int] = set()
        for machine in self._network.machines():
            for folder in self._folders():
                found.update(machine.running(self._programs(), folder))
        return sorted(found)

    def _programs(self) -> tuple[str, ...]:
        return (*self.servers, *self._mounters())

    def _mounters(self) -> tuple[str, ...]:
        return () if self.mounter is None else (self.mounter,)

    def unmount(self) -> None:
        """Take every client's mount and network away, also those of a run that died."""
        numbers = [int(path.name) for path in self._mounts.glob("[0-9]*")]
        for machine in self._network.machines():
            machine.take_away(self._mounts)
        for machine in self._network.machines():
            # A program ends when its mount is gone; one of libfuse's that is told to end while it
            # is there waits for the next request.
            wait_until(lambda: not self._mounting(machine), _UNMOUNTED_S)  # noqa: B023
            machine.end(self._mounters(), self._mounts, STOP_S)
        for number in numbers:
            self._network.remove(self._client_node(number))
        self._points = []

    def _mounting(self, machine: Node) -> list[int]:
        return machine.running(self._mounters(), self._mounts)

    def stop(self) -> None:
        """Stop the servers: ask, wait, and only then kill."""
        for machine in self._network.machines():
            machine.end(self.servers, self._root, STOP_S)

    def abandon(self) -> None:
        """Kill the mounts: what works on them gets errors, where it would wait for ever."""
        for machine in self._network.machines():
            machine.end(self._mounters(), self._mounts, 0.0)

    def clean(self) -> None:
        """Remove servers, mounts, network and files, whatever of them there is."""
        machines = self._network.machines()
        for machine in machines:
            machine.take_away(self._mounts)
            for folder in self._folders():
                machine.end(self._programs(), folder, grace_s=0.0)
        for network in self._networks:
            network.down()
        for machine in machines:
            for folder in self._folders():
                machine.remove(folder)
        if self._hosts is None:
            remove_if_empty(self._root.parent)
        self._points = []


def _blocks(node: Node, point: Path) -> int:
    """Size of a mount, asked by a program of its own: a mount whose servers died never answers."""
    text = node.answer("stat", "--file-system", "--format=%b", str(point))
    return int(text) if text is not None and text.isdigit() else 0
