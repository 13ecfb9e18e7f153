"""MooseFS, from Debian's packages: a master, chunk servers, and a mount for each client.

    [[system]]
    name = "moosefs"
    options = { chunk_servers = 4, goal = 2, network = "namespaces", leg = "1 Gbit/s" }

Everything lies below the scratch folder (chunks in `data`, if folders are given), and what cannot
lie there bears its mark, so that two can run side by side and what a killed run has left is found.
The settings are those of the thesis, section 5.4: goal 1, access times never changed, a day in the
trash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wattio.errors import HostError, SystemFailed
from wattio.systems import servers
from wattio.systems.commands import remove_if_empty, wait_until
from wattio.systems.moosefs_setup import (
    CLIENT_PORT,
    CONFIGURATION,
    MASTER_NODE,
    Options,
    chunk_node,
    client_node,
    clients_max,
    write_chunk_server,
    write_master,
)
from wattio.systems.moosefs_status import SEPARATOR, ChunkServer, chunk_servers, master
from wattio.systems.networks import Loopback, Namespaces, Network, parse_rate
from wattio.systems.nodes import Node
from wattio.workloads.workload import Place

__all__ = ["Options", "Storage"]

FILE_SYSTEMS = ("fuse", "fuse.mfs")
"""How kernels name the type of such a mount; its source tells the master."""

READY_S = 60.0
"""How long servers may take to register, and a mount to show their space."""

STOP_S = 40.0
"""How long servers may take to end by themselves; 8 to 9 s are usual."""

_PROGRAMS = {
    "mfsmaster": "moosefs-master",
    "mfschunkserver": "moosefs-chunkserver",
    "mfsmount": "moosefs-client",
    "mfssetgoal": "moosefs-client",
    "mfscli": "moosefs-cli",
}
_SERVERS = ("mfsmaster", "mfschunkserver")
_ALL = (*_SERVERS, "mfsmount")


class Storage:
    """A MooseFS below a scratch folder."""

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        self._options = options
        self._root = scratch.resolve() / "moosefs"
        mark = hashlib.sha256(str(self._root).encode()).hexdigest()[:6]
        self._mounts = self._root / "clients"
        numbers = range(1, options.chunk_servers + 1)
        below = [self._root / f"chunks{number}" for number in numbers]
        own = [Path(folder).resolve() / f"wattio-{mark}" for folder in options.data]
        self._data = own or below
        loopback = Loopback(mark, options.subnet)
        namespaces = Namespaces(mark, options.subnet, parse_rate(options.leg))
        # A run before this one may have had the other.
        self._networks: tuple[Network, ...] = (loopback, namespaces)
        self._network = self._networks[options.network == "namespaces"]
        self._points: list[Path] = []

    def probe(self) -> None:
        """Raise HostError where root, FUSE or a package is missing."""
        for machine in self._network.machines():
            machine.need({**_PROGRAMS, **self._network.programs})
        for folder in self._options.data:
            if not Path(folder).is_dir():
                raise HostError(f"{folder}: is not a folder; chunks were to be kept there")

    def deploy(self) -> None:
        """Make network and configuration; what a dead run has left is removed first."""
        self.clean()
        self._network.up()
        for node in (MASTER_NODE, *map(chunk_node, self._numbers())):
            self._network.add(node)
        write_master(self._folder("master"), self._network)
        for number, data in zip(self._numbers(), self._data, strict=True):
            write_chunk_server(self._folder(f"chunk{number}"), number, data, self._network)

    def _numbers(self) -> range:
        return range(1, self._options.chunk_servers + 1)

    def _folder(self, part: str) -> Path:
        return self._root / part

    def start(self) -> None:
        """Start master and chunk servers; wait until all of them have registered."""
        self._start("master", "mfsmaster", MASTER_NODE)
        for number in self._numbers():
            self._start(f"chunk{number}", "mfschunkserver", chunk_node(number))
        wanted = self._options.chunk_servers
        if not wait_until(lambda: len(self._registered()) == wanted, READY_S):
            found = len(self._registered())
            raise SystemFailed(f"{found} of {wanted} chunk servers registered in {READY_S:g} s")

    def _start(self, part: str, program: str, node: int) -> None:
        folder, where = self._folder(part), self._network.node(node)
        if not where.running([program], folder):
            where.call(part, program, "-c", str(folder / CONFIGURATION), "start")

    def _registered(self) -> list[ChunkServer]:
        return chunk_servers(self._status("CS"))

    def _status(self, what: str) -> str:
        """One of mfscli's sets of facts; no text while the master does not answer."""
        node = self._network.node(MASTER_NODE)
        form = (f"-S{what}", "-p", "-s", SEPARATOR)
        return node.answer("mfscli", *self._master(), *form) or ""

    def _master(self) -> tuple[str, ...]:
        return "-H", self._network.address(MASTER_NODE), "-P", str(CLIENT_PORT)

    def mount(self, clients: int) -> Sequence[Place]:
        """Mount it for each client, by a process (and, with namespaces, in a network) of its own.

        All see the same files. Copies and trash time are set on the root folder.
        """
        if clients > clients_max(self._options):
            raise SystemFailed(f"at most {clients_max(self._options)} clients find an address")
        self._points = [self._mounts / str(number) for number in range(1, clients + 1)]
        for number, point in enumerate(self._points, start=1):
            self._mount(number, point)
        first = str(self._points[0])
        node = self._client(1)
        node.call("goal", "mfssetgoal", "-r", str(self._options.goal), first)
        seconds = f"{self._options.trash_time:.0f}"
        node.call("trash time", "mfssettrashtime", "-r", seconds, first)
        return [Place(point) for point in self._points]

    def _client(self, number: int) -> Node:
        return self._network.node(client_node(number, self._options))

    def _mount(self, number: int, point: Path) -> None:
        if self._mounted(number, point):
            return
        self._network.add(client_node(number, self._options))
        node = self._client(number)
        node.folder(point)
        # Like the servers' NICE_LEVEL: where nothing is said, it would be -19.
        wanted = ("mfsnice=0", *self._options.mount_options)
        options = [part for option in wanted for part in ("-o", option)]
        node.call(f"client {number}", "mfsmount", str(point), *self._master(), *options)
        if not wait_until(lambda: bool(_blocks(node, point)), READY_S):
            raise SystemFailed(f"client {number}: {point} shows no space after {READY_S:g} s")

    def _mounted(self, number: int, point: Path) -> bool:
        """Whether the last thing that was mounted on a folder is this MooseFS."""
        found = [mount for mount in self._client(number).mounts(point) if mount.point == point]
        source = f"mfs#{self._network.address(MASTER_NODE)}:{CLIENT_PORT}"
        return bool(found) and found[0].file_system in FILE_SYSTEMS and found[0].source == source

    def verify_mount(self) -> None:
        """Raise SystemFailed where a client's folder is not a mount of MooseFS with free space."""
        for number, point in enumerate(self._points, start=1):
            if not self._mounted(number, point):
                raise SystemFailed(f"client {number}: MooseFS is not mounted on {point}")
            if not _blocks(self._client(number), point):
                raise SystemFailed(f"client {number}: {point} does not answer, or has no space")
        if not self._points:
            raise SystemFailed("MooseFS is not mounted")

    def describe(self) -> dict[str, Any]:
        """Version, servers, replication, network, and the disks below."""
        told = master(self._status("IN"))
        nodes = [self._network.node(chunk_node(number)) for number in self._numbers()]
        below = [node.disk(data) for node, data in zip(nodes, self._data, strict=True)]
        # Servers that share a disk do not add to the capacity.
        disks = {str(one.get("device", one.get("mount_point"))): one for one in below}
        facts = {
            **self._options.model_dump(mode="json", exclude={"data", "subnet"}),
            "version": told.get("master version"),
            "file_system": FILE_SYSTEMS[-1],
            "subnet": str(self._network.subnet()),
            "atime": "never",
            "servers": [f"{one.address}:{one.port}" for one in self._registered()],
            "disks": list(disks.values()),
            "raw_capacity_bytes": sum(one["raw_capacity_bytes"] for one in disks.values()),
        }
        if self._options.network == "loopback":
            del facts["leg"]
        return {key: value for key, value in facts.items() if value is not None}

    def processes(self) -> list[int]:
        """Master, chunk servers and mounts."""
        return servers.running(_ALL, self._root)

    def unmount(self) -> None:
        """Take every client's mount and network away, also those of a run that died."""
        numbers = [int(path.name) for path in self._mounts.glob("[0-9]*")]
        for machine in self._network.machines():
            machine.take_away(self._mounts)
            machine.end(["mfsmount"], self._mounts, STOP_S)
        for number in numbers:
            self._network.remove(client_node(number, self._options))
        self._points = []

    def stop(self) -> None:
        """Stop the servers; the master saves its metadata."""
        for machine in self._network.machines():
            machine.end(_SERVERS, self._root, STOP_S)

    def clean(self) -> None:
        """Remove servers, mounts, network and files, whatever of them there is."""
        machines = self._network.machines()
        for machine in machines:
            machine.take_away(self._mounts)
            machine.end(_ALL, self._root, grace_s=0.0)
        for network in self._networks:
            network.down()
        for machine in machines:
            for folder in (self._root, *self._data):
                machine.remove(folder)
        remove_if_empty(self._root.parent)
        self._points = []


def _blocks(node: Node, point: Path) -> int:
    """Size of a mount, asked by a program of its own: a mount whose servers died never answers."""
    text = node.answer("stat", "--file-system", "--format=%b", str(point))
    return int(text) if text is not None and text.isdigit() else 0
