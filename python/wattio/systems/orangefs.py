"""OrangeFS, from an installation that is there: servers of metadata and of data, and mounts.

    [[system]]
    name = "orangefs"
    options = { prefix = "/opt/orangefs", network = "namespaces", leg = "1 Gbit/s" }

No distribution has it: somebody builds it (`--with-db-backend=lmdb --enable-fuse`). The settings
are those of the thesis, section 5.2: one server of metadata, four of data, and the defaults that
OrangeFS ships. A file is on as many servers as there are, and each part of it on one only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from wattio.errors import HostError, SystemFailed
from wattio.systems import commands
from wattio.systems import orangefs_setup as setup
from wattio.systems import orangefs_status as told
from wattio.systems.cluster import READY_S, Cluster, Daemon
from wattio.systems.commands import wait_until
from wattio.systems.installed import Installation
from wattio.systems.nodes import LOADING_S, Node
from wattio.systems.orangefs_setup import Options, Server
from wattio.workloads.workload import Place

__all__ = ["Options", "Storage"]

_FIRST = 1
_ASKED_S = 20.0
_KERNEL = ("pvfs2-client", "pvfs2-client-core")
"""Programs that talk to servers for the kernel's client, and start each other anew."""

_FUSE = "pvfs2fuse"
_ASIDE = "stranded-bstreams"
"""Where a server of data puts what is deleted, in the folder of each file system."""


class Storage(Cluster):
    """An OrangeFS below a scratch folder."""

    name = "orangefs"
    title = "OrangeFS"
    servers = ("pvfs2-server", *_KERNEL)

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        super().__init__(options, scratch, managers=options.metadata_servers)
        self._options = options
        self._kernel = options.client == "kernel"
        clients = {name: "sbin" for name in _KERNEL} if self._kernel else {_FUSE: "bin"}
        folders = {"pvfs2-server": "sbin", "pvfs2-ping": "bin", **clients}
        self._installed = Installation(options.prefix, folders)
        self.programs = self._installed.needed()
        self.file_systems = ("pvfs2",) if self._kernel else ("fuse", "fuse.pvfs2fuse")
        self.mounter = None if self._kernel else _FUSE

    def probe(self) -> None:
        """Raise HostError where a program or folder is missing, or the kernel has no client."""
        super().probe()
        if self._options.metadata is not None:
            for node in range(1, self._managers + 1):
                self._need_folder(node, self._options.metadata)
        if self._kernel:
            for machine in self._network.machines():
                machine.answer("modprobe", "orangefs", timeout_s=LOADING_S)
                if machine.answer("grep", "-w", "pvfs2", "/proc/filesystems") is None:
                    raise HostError("this kernel has no client for OrangeFS (modprobe orangefs)")

    def _server(self, node: int) -> Server:
        """A server by its node: those of metadata come first."""
        folder = self._root / f"server{node}"
        store = self._data[node - self._managers - 1] if node > self._managers else folder
        if node <= self._managers and (own := self._metadata()) is not None:
            store = own / f"server{node}"
        address = f"tcp://{self._network.address(node)}:{setup.PORT + node}"
        return Server(f"node{node}", address, folder, store)

    def _metadata(self) -> Path | None:
        named = self._options.metadata
        return None if named is None else Path(named) / f"wattio-{self._mark}"

    def _folders(self) -> list[Path]:
        """With that of metadata, where it is named."""
        own = self._metadata()
        return super()._folders() if own is None else [*super()._folders(), own]

    def _nodes(self) -> range:
        return range(1, self._managers + self._options.io_servers + 1)

    def _configure(self) -> None:
        servers = [self._server(node) for node in self._nodes()]
        at = self._managers
        # The same for each file system of this folder, and above zero.
        number = int(self._mark, 16) + 1
        text = setup.configuration(self._options, number, servers[:at], servers[at:])
        for number, server in zip(self._nodes(), servers, strict=True):
            node = self._network.node(number)
            node.folder(server.store)
            node.write(server.folder / setup.CONFIGURATION, text)
            node.write(server.folder / setup.TAB, setup.tab(self._spec(), self._mounts))
        commands.together([partial(self._make, number) for number in self._nodes()])

    def _make(self, node: int) -> None:
        """Have a server make its storage, which it does but once."""
        self._network.node(node).call(f"server {node}", *self._serve(node, "-f"))

    def _serve(self, node: int, *more: str) -> tuple[str, ...]:
        server = self._server(node)
        own = ("-p", str(server.folder / "server.pid"), "-a", server.alias)
        configuration = str(server.folder / setup.CONFIGURATION)
        return self._installed.command("pvfs2-server", *more, *own, configuration)

    def _daemons(self) -> Sequence[Daemon]:
        found = []
        for node in self._nodes():
            server = self._server(node)
            part = f"server {node}"
            found.append(Daemon(part, node, "pvfs2-server", server.folder, server.log))
        return found

    def start(self) -> None:
        """Start the servers; wait until each of them answers."""
        self._begin({daemon: self._serve(daemon.node) for daemon in self._daemons()})
        wait_until(lambda: self._has_ended() or not self._silent(), READY_S)
        self._check_daemons()
        if silent := self._silent():
            raise SystemFailed(f"{', '.join(sorted(silent))}: no answer within {READY_S:g} s")

    def _has_ended(self) -> bool:
        """Whether a server has gone: to ask it takes long, as it is asked again and again."""
        return not all(map(self._runs, self._daemons()))

    def _silent(self) -> set[str]:
        """Addresses of servers that do not answer."""
        tab = self._server(_FIRST).folder / setup.TAB
        asked = ("-m", str(self._mounts))
        command = self._installed.command("pvfs2-ping", *asked, PVFS2TAB_FILE=tab)
        said = self._network.node(_FIRST).answer(*command, timeout_s=_ASKED_S) or ""
        return {self._server(node).address for node in self._nodes()} - told.answering(said)

    def mount(self, clients: int) -> Sequence[Place]:
        """Mount it for each client. Raises SystemFailed where a kernel would have two."""
        if self._kernel and self._hosts is None and clients > 1:
            raise SystemFailed(
                "the kernel has one OrangeFS client for the whole machine: use 1 client here, or"
                " clients on hosts of their own"
            )
        return super().mount(clients)

    def _mount(self, number: int, node: Node, point: Path) -> None:
        part, log = f"client {number}", self._client_log(number)
        node.folder(log.parent)
        options = [word for option in self._options.mount_options for word in ("-o", option)]
        if not self._kernel:
            told_to = (str(point), "-o", f"fs_spec={self._spec()}", *options)
            node.call(part, *self._installed.command(_FUSE, *told_to, PVFS2_DEBUGFILE=log))
            return
        daemon, core = _KERNEL
        if not node.running([daemon], self._root):
            own = ("-p", self._installed.program(core), "-L", str(log))
            node.call(part, *self._installed.command(daemon, *own))
        node.call(part, "mount", "-t", "pvfs2", *options, self._spec(), str(point))

    def _spec(self) -> str:
        """What a client is told: one server, of which it has the configuration."""
        return f"{self._server(_FIRST).address}/{setup.FILE_SYSTEM}"

    def _source(self) -> str:
        return self._spec() if self._kernel else f"{_FUSE}#{self._spec()}"

    def _facts(self) -> Mapping[str, Any]:
        asked = self._installed.command("pvfs2-server", "-v")
        return {
            "version": told.version(self._network.node(_FIRST).answer(*asked) or ""),
            "servers": [self._server(node).address for node in self._nodes()],
            "copies": 1,
        }

    def _deletes_left(self) -> int | None:
        """Parts of files that servers have put aside, each of which a thread of theirs removes."""
        left = 0
        for number in self._numbers():
            server = self._server(self._data_node(number))
            pattern = f"{server.store}/data/*/{_ASIDE}/*"
            command = ("find", f"{server.store}/data", "-mindepth", "3", "-path", pattern)
            listed = self._network.node(self._data_node(number)).answer(*command) or ""
            left += len(listed.splitlines())
        return left

    def abandon(self) -> None:
        """End the mounts; what the kernel's client waits for fails when its programs are gone."""
        super().abandon()
        if self._kernel:
            for machine in self._network.machines():
                machine.end(_KERNEL, self._root, 0.0)
