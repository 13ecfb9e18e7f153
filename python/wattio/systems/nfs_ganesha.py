"""NFS-Ganesha, from Debian's packages: one server of a local folder, mounted by the kernel.

    [[system]]
    name = "nfs_ganesha"
    options = { data = ["/disk1"], network = "namespaces", leg = "1 Gbit/s" }

The server runs beside the kernel and speaks NFS 4 alone, which needs no other daemon. What it
serves lies in a folder of a file system whose files can be opened by handles, as on ext4 and xfs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from wattio.errors import HostError, SystemFailed
from wattio.systems.cluster import READY_S, Cluster, ClusterOptions, Daemon
from wattio.systems.commands import wait_until
from wattio.systems.nodes import LOADING_S, Node
from wattio.systems.private import privately

__all__ = ["Options", "Storage"]

PORT = 2049
EXPORT = "/wattio"

_SERVER = 1
_READY = "NFS SERVER INITIALIZED"
_VERSION = re.compile(r"NFS-Ganesha Release = V?([0-9][0-9.]*)")
_PLACES = ("/run", "/var/log/ganesha")


class Options(ClusterOptions):
    """The version that clients speak; one server, so one folder of data."""

    version: Literal["4.0", "4.1", "4.2"] = "4.2"  # of NFS that clients speak

    @property
    def data_servers(self) -> int:
        """One."""
        return 1


class Storage(Cluster):
    """An NFS server below a scratch folder."""

    name = "nfs_ganesha"
    title = "NFS"
    programs = {  # noqa: RUF012
        "ganesha.nfsd": "nfs-ganesha",
        "mount.nfs4": "nfs-common",
        "unshare": "util-linux",
    }
    file_systems = ("nfs4",)
    servers = ("ganesha.nfsd",)
    mounter = None

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        super().__init__(options, scratch, managers=0)
        self._options = options
        self._folder = self._root / "server"
        self._log = self._folder / "server.log"

    def probe(self) -> None:
        """Raise HostError where a package is missing, or the kernel has no client for NFS."""
        super().probe()
        for machine in self._network.machines():
            machine.answer("modprobe", "nfsv4", timeout_s=LOADING_S)
            if machine.answer("grep", "-w", "nfs4", "/proc/filesystems") is None:
                raise HostError("this kernel has no client for NFS 4 (modprobe nfsv4)")

    def _configure(self) -> None:
        node, address = self._network.node(_SERVER), self._network.address(_SERVER)
        node.folder(self._folder / "recovery")
        text = configuration(address, self._data[0], self._folder / "recovery")
        node.write(self._folder / "ganesha.conf", text)

    def _daemons(self) -> Sequence[Daemon]:
        return [Daemon("server", _SERVER, "ganesha.nfsd", self._folder, self._log)]

    def start(self) -> None:
        """Start the server; wait until it says that it serves."""
        files = {"-f": "ganesha.conf", "-L": self._log.name, "-p": "server.pid"}
        words = [word for key, name in files.items() for word in (key, str(self._folder / name))]
        command = privately(self._folder, _PLACES, ("ganesha.nfsd", *words))
        self._begin(dict.fromkeys(self._daemons(), command))
        if not wait_until(lambda: _READY in self._said(), READY_S):
            self._check_daemons()
            raise SystemFailed(f"server: does not serve after {READY_S:g} s")

    def _said(self) -> str:
        return self._network.node(_SERVER).tail(self._log)

    def _mount(self, number: int, node: Node, point: Path) -> None:
        wanted = (f"vers={self._options.version}", f"port={PORT}", "proto=tcp")
        options = ",".join((*wanted, *self._options.mount_options))
        words = ("mount", "-t", "nfs4", "-o", options, self._source(), str(point))
        node.call(f"client {number}", *words)

    def _source(self) -> str:
        return f"{self._network.address(_SERVER)}:{EXPORT}"

    def _facts(self) -> Mapping[str, Any]:
        told = self._network.node(_SERVER).answer("ganesha.nfsd", "-v") or ""
        found = _VERSION.search(told)
        return {"server_version": None if found is None else found[1]}

    def _deletes_left(self) -> int | None:
        """Nothing: what is deleted is so when the server says it."""
        return 0

    def abandon(self) -> None:
        """Have requests that wait for a server that has gone fail."""
        for number, point in enumerate(self._points, start=1):
            self._client(number).answer("umount", "--force", str(point))


def configuration(address: str, data: Path, recovery: Path) -> str:
    """The configuration file of the server: one folder, to all who reach the address."""
    blocks: dict[str, dict[str, object]] = {
        "NFS_CORE_PARAM": {
            "Protocols": 4,
            "Bind_addr": address,
            "NFS_Port": PORT,
            "Enable_NLM": "false",
            "Enable_RQUOTA": "false",
        },
        # No server before this one has clients that would come back.
        "NFSv4": {"Graceless": "true", "RecoveryBackend": "fs", "RecoveryRoot": f'"{recovery}"'},
        "EXPORT": {
            "Export_Id": 1,
            "Path": f'"{data}"',
            "Pseudo": f'"{EXPORT}"',
            "Access_Type": "RW",
            "Squash": "No_Root_Squash",
            "SecType": "sys",
            "Protocols": 4,
        },
    }
    text = ""
    for block, settings in blocks.items():
        lines = "".join(f"    {name} = {value};\n" for name, value in settings.items())
        last = "    FSAL { Name = VFS; }\n" if block == "EXPORT" else ""
        text += f"{block} {{\n{lines}{last}}}\n"
    return text
