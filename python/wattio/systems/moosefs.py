"""MooseFS, from Debian's packages: a master, chunk servers, and a mount for each client.

    [[system]]
    name = "moosefs"
    options = { chunk_servers = 4, goal = 2, network = "namespaces", leg = "1 Gbit/s" }

The settings are those of the thesis, section 5.4: goal 1, access times never changed, a day in the
trash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wattio.errors import SystemFailed
from wattio.systems.cluster import READY_S, Cluster, Daemon
from wattio.systems.commands import wait_until
from wattio.systems.moosefs_setup import (
    CLIENT_PORT,
    CONFIGURATION,
    MASTER_NODE,
    Options,
    write_chunk_server,
    write_master,
)
from wattio.systems.moosefs_status import (
    SEPARATOR,
    ChunkServer,
    chunk_servers,
    deletes_left,
    master,
)
from wattio.systems.nodes import Node
from wattio.workloads.workload import Place

__all__ = ["Options", "Storage"]


class Storage(Cluster):
    """A MooseFS below a scratch folder."""

    name = "moosefs"
    title = "MooseFS"
    programs = {  # noqa: RUF012
        "mfsmaster": "moosefs-master",
        "mfschunkserver": "moosefs-chunkserver",
        "mfsmount": "moosefs-client",
        "mfssetgoal": "moosefs-client",
        "mfscli": "moosefs-cli",
    }
    file_systems = ("fuse.mfs", "fuse")
    servers = ("mfsmaster", "mfschunkserver")
    mounter = "mfsmount"

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        super().__init__(options, scratch, managers=MASTER_NODE)
        self._options = options

    def _configure(self) -> None:
        write_master(self._root / "master", self._network)
        for number, data in zip(self._numbers(), self._data, strict=True):
            write_chunk_server(self._root / f"chunk{number}", number, data, self._network)

    def _daemons(self) -> Sequence[Daemon]:
        chunks = [
            Daemon(f"chunk{number}", self._data_node(number), "mfschunkserver", self._root / name)
            for number, name in ((number, f"chunk{number}") for number in self._numbers())
        ]
        return [Daemon("master", MASTER_NODE, "mfsmaster", self._root / "master"), *chunks]

    def start(self) -> None:
        """Start master and chunk servers; wait until all of them have registered."""
        first, *chunks = self._daemons()
        for daemons in ([first], chunks):
            self._begin({daemon: _command(daemon) for daemon in daemons})
        wanted = self._options.chunk_servers
        if not wait_until(lambda: len(self._registered()) == wanted, READY_S):
            found = len(self._registered())
            raise SystemFailed(f"{found} of {wanted} chunk servers registered in {READY_S:g} s")

    def _registered(self) -> list[ChunkServer]:
        return chunk_servers(self._status("CS"))

    def _status(self, what: str) -> str:
        """One of mfscli's sets of facts; no text while the master does not answer."""
        form = (f"-S{what}", "-n", "-p", "-s", SEPARATOR)
        return self._network.node(MASTER_NODE).answer("mfscli", *self._master(), *form) or ""

    def _master(self) -> tuple[str, ...]:
        return "-H", self._network.address(MASTER_NODE), "-P", str(CLIENT_PORT)

    def mount(self, clients: int) -> Sequence[Place]:
        """Mount it for each client; copies and trash time are set on the root folder."""
        places = super().mount(clients)
        node, first = self._client(1), str(places[0].folder)
        node.call("goal", "mfssetgoal", "-r", str(self._options.goal), first)
        seconds = f"{self._options.trash_time:.0f}"
        node.call("trash time", "mfssettrashtime", "-r", seconds, first)
        return places

    def _mount(self, number: int, node: Node, point: Path) -> None:
        # Like the servers' NICE_LEVEL: where nothing is said, it would be -19.
        wanted = ("mfsnice=0", *self._options.mount_options)
        options = [part for option in wanted for part in ("-o", option)]
        node.call(f"client {number}", "mfsmount", str(point), *self._master(), *options)

    def _source(self) -> str:
        return f"mfs#{self._network.address(MASTER_NODE)}:{CLIENT_PORT}"

    def _facts(self) -> Mapping[str, Any]:
        return {
            "version": master(self._status("IN")).get("master version"),
            "atime": "never",
            "servers": [f"{one.address}:{one.port}" for one in self._registered()],
        }

    def _deletes_left(self) -> int | None:
        """Chunks whose files have left the trash, and clients, and that no loop has removed yet."""
        return deletes_left(self._status("IN"))


def _command(daemon: Daemon) -> tuple[str, ...]:
    return (daemon.program, "-c", str(daemon.folder / CONFIGURATION), "start")
