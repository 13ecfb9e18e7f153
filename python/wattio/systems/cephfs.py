"""CephFS, from Debian's packages: monitor, manager, metadata server, OSDs, and ceph-fuse mounts.

    [[system]]
    name = "cephfs"
    options = { osds = 4, copies = 2, placement_groups = 64, network = "namespaces" }

The defaults are the thesis's, section 5.1: two copies on different nodes of which one has to be
there, 64 placement groups for each pool. OSDs keep their data by BlueStore in a file of their
folder.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from wattio.errors import HostError, SystemFailed
from wattio.systems import cephfs_setup as setup
from wattio.systems import cephfs_status as told
from wattio.systems import commands
from wattio.systems.cephfs_setup import METADATA_NODE, MONITOR_NODE, Options
from wattio.systems.cluster import READY_S, Cluster, Daemon
from wattio.systems.commands import wait_until
from wattio.systems.nodes import Node

__all__ = ["Options", "Storage"]

_PLAIN = re.compile(r"[A-Za-z0-9/._+:@%=-]+")
_ASKED_S = 20.0
_METADATA = "mds.metadata"


class Storage(Cluster):
    """A CephFS below a scratch folder."""

    name = "cephfs"
    title = "CephFS"
    programs = {  # noqa: RUF012
        "ceph-mon": "ceph-mon",
        "ceph-mgr": "ceph-mgr",
        "ceph-osd": "ceph-osd",
        "ceph-mds": "ceph-mds",
        "ceph-fuse": "ceph-fuse",
        "ceph": "ceph-common",
        "unshare": "util-linux",
        "mount": "mount",
    }
    file_systems = ("fuse.ceph-fuse",)
    servers = ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds")
    mounter = "ceph-fuse"

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        super().__init__(options, scratch, managers=setup.MANAGERS)
        self._options = options
        # The same for each object of this folder: it says what belongs together, no more.
        self._identity = uuid.uuid5(uuid.NAMESPACE_URL, str(self._root))

    def _daemons(self) -> Sequence[Daemon]:
        return [
            self._daemon(setup.MONITOR, MONITOR_NODE, "ceph-mon"),
            self._daemon("manager", MONITOR_NODE, "ceph-mgr"),
            self._daemon("metadata", METADATA_NODE, "ceph-mds"),
            *self._osds(),
        ]

    def _osds(self) -> list[Daemon]:
        return [
            self._daemon(f"osd{number}", self._data_node(number), "ceph-osd")
            for number in self._numbers()
        ]

    def _daemon(self, part: str, node: int, program: str) -> Daemon:
        folder = self._root / part
        return Daemon(part, node, program, folder, folder / "server.log")

    def _folder_of_data(self, daemon: Daemon) -> Path:
        if daemon.program == "ceph-osd":
            return self._data[daemon.node - setup.MANAGERS - 1]
        return daemon.folder / "data"

    def _configure(self) -> None:
        for daemon in self._daemons():
            data, address = self._folder_of_data(daemon), self._network.address(daemon.node)
            own = setup.server_settings(daemon.folder, data, address)
            if daemon.program == "ceph-osd":
                # Copies go to different nodes, also where all have the name of one host.
                own["crush location"] = f"root=default host=node{daemon.node}"
            self._network.node(daemon.node).folder(data)
            self._write(daemon.node, daemon.folder, own)

    def _write(self, node: int, folder: Path, own: Mapping[str, object]) -> None:
        monitor = self._network.address(MONITOR_NODE)
        text = setup.configuration(self._options, self._identity, monitor, own)
        self._network.node(node).write(folder / setup.CONFIGURATION, text)

    def probe(self) -> None:
        """Raise HostError where something is missing, or a shell reads the folder otherwise."""
        super().probe()
        if not _PLAIN.fullmatch(str(self._mounts)):
            raise HostError(
                f"{self._mounts}: ceph-fuse passes this folder to mount through a shell, which"
                " reads another one; name one without special characters with --scratch"
            )

    def start(self) -> None:
        """Start the servers, make pools and file system; wait until all of them serve."""
        monitor, manager, metadata = self._daemons()[:3]
        self._make_monitor(monitor)
        self._begin({daemon: _command(daemon, daemon.part) for daemon in (monitor, manager)})
        commands.together([partial(self._make_osd, osd) for osd in self._osds()])
        self._begin({osd: _command(osd, _number(osd)) for osd in self._osds()})
        wanted = self._options.osds
        self._wait(
            lambda: told.osds_up(self._ask("osd", "stat")) == wanted, f"{wanted} OSDs are not up"
        )
        self._make_pools()
        self._begin({metadata: _command(metadata, metadata.part)})
        self._wait(
            lambda: told.metadata_active(self._ask("mds", "stat")),
            "the metadata server is not active",
        )
        groups = self._options.placement_groups + self._options.metadata_placement_groups
        self._wait(
            lambda: told.groups_clean(self._ask("pg", "stat"), groups),
            "placement groups are not all clean",
        )

    def _wait(self, reached: Callable[[], bool], complaint: str) -> None:
        if not wait_until(reached, READY_S):
            self._check_daemons()
            raise SystemFailed(f"{complaint} after {READY_S:g} s")

    def _make_monitor(self, monitor: Daemon) -> None:
        node = self._network.node(MONITOR_NODE)
        if self._runs(monitor):
            return
        address = self._network.address(MONITOR_NODE)
        ports = ",".join(
            f"{version}:{address}:{port}"
            for version, port in zip(("v2", "v1"), setup.MONITOR_PORTS, strict=True)
        )
        monitors = str(monitor.folder / "monitors")
        made = ("--create", "--clobber", "--fsid", str(self._identity), monitors)
        node.call(monitor.part, "monmaptool", *made, "--addv", monitor.part, f"[{ports}]")
        own = ("--mkfs", "-i", monitor.part, "--monmap", monitors)
        node.call(monitor.part, *setup.command(monitor.folder, "ceph-mon", *own))

    def _make_osd(self, osd: Daemon) -> None:
        if self._runs(osd):
            return
        number, own = _number(osd), str(uuid.uuid5(self._identity, osd.part))
        self._ceph(osd.part, "osd", "new", own, number)
        made = ("-i", number, "--mkfs", "--osd-uuid", own)
        node = self._network.node(osd.node)
        node.call(osd.part, *setup.command(osd.folder, "ceph-osd", *made))

    def _make_pools(self) -> None:
        if setup.FILE_SYSTEM in self._ask("fs", "ls"):
            return
        groups = {
            setup.METADATA_POOL: self._options.metadata_placement_groups,
            setup.DATA_POOL: self._options.placement_groups,
        }
        for pool, count in groups.items():
            self._ceph(f"pool {pool}", "osd", "pool", "create", pool, str(count))
        self._ceph("file system", "fs", "new", setup.FILE_SYSTEM, *groups)

    def _ceph(self, part: str, *arguments: str) -> str:
        node, folder = self._network.node(MONITOR_NODE), self._root / setup.MONITOR
        return node.call(part, *setup.command(folder, "ceph", *arguments))

    def _ask(self, *arguments: str) -> str:
        node, folder = self._network.node(MONITOR_NODE), self._root / setup.MONITOR
        command = setup.command(folder, "ceph", *arguments, "--format", "json")
        return node.answer(*command, timeout_s=_ASKED_S) or ""

    def _mount(self, number: int, node: Node, point: Path) -> None:
        folder = self._client_log(number).parent
        self._write(self._client_node(number), folder, setup.client_settings(folder))
        options = [part for option in self._options.mount_options for part in ("-o", option)]
        configuration = ("-c", str(folder / setup.CONFIGURATION), "-n", "client.admin")
        node.call(f"client {number}", "ceph-fuse", *configuration, *options, str(point))

    def _source(self) -> str:
        return "ceph-fuse"

    def _facts(self) -> Mapping[str, Any]:
        return {
            "version": told.version(self._network.node(MONITOR_NODE).answer("ceph", "-v") or ""),
            "servers": [
                f"{daemon.part}@{self._network.address(daemon.node)}" for daemon in self._daemons()
            ],
        }

    def _deletes_left(self) -> int | None:
        """Files that are deleted and whose objects are still there."""
        return told.deletes_left(self._ask("tell", _METADATA, "perf", "dump"))

    def _release(self) -> None:
        """Also have the metadata server write its journal back.

        A deleted directory stays until then, for ever where nothing else is asked of the server.
        """
        super()._release()
        self._ask("tell", _METADATA, "flush", "journal")


def _number(osd: Daemon) -> str:
    """Ceph counts OSDs from 0."""
    return str(int(osd.part.removeprefix("osd")) - 1)


def _command(daemon: Daemon, name: str) -> tuple[str, ...]:
    return setup.command(daemon.folder, daemon.program, "-i", name)
