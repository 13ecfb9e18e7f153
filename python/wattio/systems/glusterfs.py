"""GlusterFS, from Debian's packages: a server for each brick, and a mount for each client.

    [[system]]
    name = "glusterfs"
    options = { bricks = 5, redundancy = 1, network = "namespaces", leg = "1 Gbit/s" }

The default is the thesis's volume, section 5.3: dispersed over five servers, one of which may fail.
Between namespaces each node has a glusterd of its own, and they form a pool. On one address there
is room for one glusterd, which has all bricks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wattio.errors import SystemFailed
from wattio.systems import glusterfs_setup as setup
from wattio.systems import glusterfs_status as told
from wattio.systems.cluster import READY_S, Cluster, Daemon
from wattio.systems.commands import wait_until
from wattio.systems.glusterfs_setup import VOLUME, Options
from wattio.systems.nodes import Node

__all__ = ["Options", "Storage"]

_DELETED = ("unlink", "landfill")
_HEALED = ("indices/xattrop", "indices/dirty")
"""Where a brick keeps what is deleted and not yet gone, and note of what may have to be healed.

A write leaves such a note for a second, until the bricks agree that it is on all of them.
"""


class Storage(Cluster):
    """A GlusterFS below a scratch folder."""

    name = "glusterfs"
    title = "GlusterFS"
    programs = {  # noqa: RUF012
        "glusterd": "glusterfs-server",
        "gluster": "glusterfs-client",
        "glusterfs": "glusterfs-client",
        "unshare": "util-linux",
        "mount": "mount",
    }
    file_systems = ("fuse.glusterfs",)
    servers = ("glusterd", "glusterfsd", "glusterfs")
    mounter = "glusterfs"

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        super().__init__(options, scratch, managers=0)
        self._options = options

    def _pool(self) -> list[int]:
        """Numbers of the bricks whose nodes have a glusterd."""
        return list(dict.fromkeys(map(self._network.first_at, self._numbers())))

    def _folder(self, number: int) -> Path:
        """Where the glusterd of a brick keeps its files."""
        return self._root / f"server{self._network.first_at(number)}"

    def _brick(self, number: int) -> Path:
        return self._data[number - 1] / "brick"

    def _configure(self) -> None:
        addresses = [self._network.address(number) for number in self._pool()]
        for number in self._pool():
            folder, node = self._folder(number), self._network.node(number)
            for name, text in zip(setup.NAMES, (setup.hosts(addresses), ""), strict=True):
                node.write(folder / name[1:], text)
            address = self._network.address(number)
            node.write(folder / setup.CONFIGURATION, setup.configuration(folder, address))
            node.folder(setup.log(folder, "bricks"))

    def _daemons(self) -> Sequence[Daemon]:
        found = []
        for number in self._pool():
            folder = self._folder(number)
            log = setup.log(folder, "glusterd.log")
            found.append(Daemon(f"server {number}", number, "glusterd", folder, log))
            if self._options.heals:
                log = setup.log(folder, "glustershd.log")
                own = folder / "pids" / "shd"
                found.append(Daemon(f"self-heal {number}", number, "glusterfs", own, log))
        for number in self._numbers():
            log = setup.brick_log(self._folder(number), self._brick(number))
            brick = self._brick(number)
            found.append(Daemon(f"brick {number}", number, "glusterfsd", brick, log))
        return found

    def _gluster(self, part: str, *arguments: str) -> str:
        command = setup.command_line(self._folder(1), *arguments)
        return self._network.node(1).call(part, *command)

    def _ask(self, *arguments: str) -> str:
        command = setup.command_line(self._folder(1), *arguments)
        return self._network.node(1).answer(*command) or ""

    def start(self) -> None:
        """Start the servers, make a pool and the volume of them; wait until all bricks serve."""
        servers = [daemon for daemon in self._daemons() if daemon.program == "glusterd"]
        self._begin({daemon: setup.glusterd(daemon.folder) for daemon in servers})
        if not self._ask("volume", "info", VOLUME):
            self._make()
        if not wait_until(self._all_run, READY_S):
            self._check_daemons()
            bricks = len(told.online(self._ask("volume", "status", VOLUME, "--xml")))
            raise SystemFailed(f"{bricks} servers of the volume are up after {READY_S:g} s")

    def _make(self) -> None:
        pool = self._pool()
        if not wait_until(lambda: told.connected(self._ask("pool", "list")) > 0, READY_S):
            self._check_daemons()
            raise SystemFailed(f"server 1: glusterd does not answer after {READY_S:g} s")
        for number in pool[1:]:
            self._gluster(f"server {number}", "peer", "probe", self._network.address(number))
        wanted = len(pool)
        if not wait_until(lambda: told.connected(self._ask("pool", "list")) == wanted, READY_S):
            raise SystemFailed(f"not all of {wanted} servers are connected after {READY_S:g} s")
        bricks = [f"{self._network.address(n)}:{self._brick(n)}" for n in self._numbers()]
        self._gluster("volume", *setup.volume(self._options, bricks))
        for name, value in self._options.settings.items():
            self._gluster(f"settings: {name}", "volume", "set", VOLUME, name, value)
        self._gluster("volume", "volume", "start", VOLUME)

    def _all_run(self) -> bool:
        online = told.online(self._ask("volume", "status", VOLUME, "--xml"))
        bricks = [name for name in online if ":/" in name]
        return len(bricks) == self._options.bricks and all(map(self._runs, self._daemons()))

    def _mount(self, number: int, node: Node, point: Path) -> None:
        log = self._client_log(number)
        node.folder(log.parent)
        where = ("-s", self._network.address(1), f"--volfile-id={VOLUME}", "-l", str(log))
        node.call(f"client {number}", "glusterfs", *where, *self._options.mount_options, str(point))

    def _source(self) -> str:
        return f"{self._network.address(1)}:{VOLUME}"

    def _facts(self) -> Mapping[str, Any]:
        return {
            "version": told.version(self._network.node(1).answer("gluster", "--version") or ""),
            "servers": told.online(self._ask("volume", "status", VOLUME, "--xml")),
            "stripe_bytes": self._options.stripe_bytes,
        }

    def _deletes_left(self) -> int | None:
        return self._entries(_DELETED)

    def _heals_left(self) -> int:
        return self._entries(_HEALED)

    def _entries(self, parts: Sequence[str]) -> int:
        left = 0
        for number in self._numbers():
            own = [str(self._brick(number) / ".glusterfs" / part) for part in parts]
            command = ("find", *own, "-mindepth", "1", "-maxdepth", "1")
            left += told.unsettled(self._network.node(number).answer(*command) or "")
        return left
