"""JULEA, from an installation that is there: servers with their backends, and FUSE mounts.

    [[system]]
    name = "julea"
    options = { prefix = "/opt/julea", network = "namespaces", leg = "1 Gbit/s" }

No distribution has it: somebody builds it. The settings are those of the thesis, section 5.6:
content in files on five servers, names in LMDB and a database in SQLite on the first of them. There
no connection was accepted; servers compare addresses as they are written, so each is told the one
that the configuration has. A file is on one server, by a hash of its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wattio.errors import SystemFailed
from wattio.systems import julea_setup as setup
from wattio.systems import julea_status as told
from wattio.systems.cluster import READY_S, Cluster, Daemon
from wattio.systems.commands import wait_until
from wattio.systems.installed import Installation
from wattio.systems.julea_setup import Options
from wattio.systems.nodes import Node

__all__ = ["Options", "Storage"]

_FIRST = 1
_LOG = "server.log"
_PROGRAMS = ("julea-config", "julea-fuse", "julea-server", "julea-statistics")


class Storage(Cluster):
    """A JULEA below a scratch folder."""

    name = "julea"
    title = "JULEA"
    file_systems = ("fuse.julea-fuse",)
    servers = ("julea-server",)
    mounter = "julea-fuse"

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        super().__init__(options, scratch, managers=0)
        self._options = options
        self._installed = Installation(options.prefix, dict.fromkeys(_PROGRAMS, "bin"))
        self.programs = {**self._installed.needed(), "setsid": "util-linux"}

    def _folder(self, node: int) -> Path:
        return self._root / f"server{node}"

    def _stores(self) -> Path:
        return self._root / "stores"

    def _port(self, node: int) -> int:
        return setup.PORT + node

    def _addresses(self) -> list[str]:
        return [f"{self._network.address(node)}:{self._port(node)}" for node in self._numbers()]

    def _configure(self) -> None:
        text = self._configuration()
        for number, data in zip(self._numbers(), self._data, strict=True):
            node = self._network.node(number)
            node.write(self._folder(number) / setup.CONFIGURATION, text)
            for kind in setup.FOLDERS:
                node.folder(data / kind)
            node.folder(self._stores())
            own = str(self._stores() / str(self._port(number)))
            node.call(f"server {number}", "ln", "-sfn", str(data), own)

    def _configuration(self) -> str:
        """The file, which is the same for all: a server warns of clients that have another."""
        asked = setup.arguments(self._options, self._addresses(), self._stores())
        command = self._installed.command("julea-config", *asked)
        text = told.configuration(self._network.node(_FIRST).call("configuration", *command))
        if text is None:
            raise SystemFailed("configuration: julea-config printed none")
        return text

    def _daemons(self) -> Sequence[Daemon]:
        found = []
        for node in self._numbers():
            folder = self._folder(node)
            found.append(Daemon(f"server {node}", node, "julea-server", folder, folder / _LOG))
        return found

    def _command(self, folder: Path, name: str, *arguments: str) -> tuple[str, ...]:
        file = folder / setup.CONFIGURATION
        return self._installed.command(name, *arguments, JULEA_CONFIG=file)

    def _serve(self, daemon: Daemon) -> tuple[str, ...]:
        where = ("--host", self._network.address(daemon.node))
        port = ("--port", str(self._port(daemon.node)))
        command = self._command(daemon.folder, "julea-server", *where, *port)
        return ("sh", "-ec", setup.BEHIND, "sh", str(daemon.folder), *command)

    def start(self) -> None:
        """Start the servers; wait until all of them answer."""
        self._begin({daemon: self._serve(daemon) for daemon in self._daemons()})
        wanted = self._options.object_servers
        wait_until(lambda: bool(self._gone()) or self._answering() == wanted, READY_S)
        for daemon in self._gone():
            raise self._ended(daemon)
        self._check_daemons()
        if (found := self._answering()) != wanted:
            raise SystemFailed(f"{found} of {wanted} servers answer after {READY_S:g} s")

    def _gone(self) -> list[Daemon]:
        """Servers that have gone, with a word; one that only begins has said nothing yet."""
        gone = [daemon for daemon in self._daemons() if not self._runs(daemon)]
        logs = [self._network.node(daemon.node).tail(daemon.folder / _LOG) for daemon in gone]
        return [daemon for daemon, log in zip(gone, logs, strict=True) if log]

    def _answering(self) -> int:
        if not all(map(self._runs, self._daemons())):
            return 0
        command = self._command(self._folder(_FIRST), "julea-statistics")
        return told.answering(self._network.node(_FIRST).answer(*command) or "")

    def _mount(self, number: int, node: Node, point: Path) -> None:
        folder = self._client_log(number).parent
        node.write(folder / setup.CONFIGURATION, self._configuration())
        options = [word for option in self._options.mount_options for word in ("-o", option)]
        node.call(f"client {number}", *self._command(folder, "julea-fuse", str(point), *options))

    def _source(self) -> str:
        return "julea-fuse"

    def _answers(self, node: Node, point: Path) -> bool:
        """A mount of it shows no space, and of itself only that it is there."""
        return node.answer("stat", "--format=%F", str(point)) == "directory"

    def _facts(self) -> Mapping[str, Any]:
        return {
            "version": self._version(),
            "servers": self._addresses(),
            "copies": 1,
            "placement": "a file on one server, by a hash of its path",
        }

    def _version(self) -> str | None:
        node = self._network.node(_FIRST)
        if self._options.prefix is None:
            return told.version(node.answer("pkg-config", "--modversion", "julea") or "")
        seen = ("-name", "julea.pc", "-exec", "cat", "{}", ";")
        return told.version(node.answer("find", self._options.prefix, *seen) or "")

    def _deletes_left(self) -> int | None:
        """Nothing: what is deleted is so when the server says it."""
        return 0
