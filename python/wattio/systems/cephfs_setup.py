"""Options of a CephFS under test, and what its servers are started with."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, model_validator

from wattio.files.quantity import Size
from wattio.systems.cluster import ClusterOptions
from wattio.systems.private import privately

MONITOR = "monitor"
MONITOR_NODE = 1
METADATA_NODE = 2
MANAGERS = 2
"""Nodes as in the thesis: monitor and manager on one, the metadata server on one of its own."""

OSDS_MAX = 64
CONFIGURATION = "ceph.conf"
FILE_SYSTEM = "wattio"
DATA_POOL = "data"
METADATA_POOL = "metadata"
OSD_MEMORY_MIN = 896 << 20
"""Less Ceph refuses (`osd_memory_target`)."""

MONITOR_PORTS = (3300, 6789)

PLACES = ("/run", "/var/lib/ceph", "/var/log/ceph")
"""Where servers write beside the folders that options name."""


class Options(ClusterOptions):
    """OSDs, replication and placement of a CephFS: those of the thesis, section 5.1."""

    osds: int = Field(default=2, ge=1, le=OSDS_MAX)  # each of a server with a disk
    # Copies of each object.
    copies: int = Field(default=2, ge=1, le=9)
    # How many of them have to be there for writes to go on.
    copies_min: int = Field(default=1, ge=1, le=9)
    # Of the pool of data; powers of two do best.
    placement_groups: int = Field(default=64, ge=1, le=4096)
    # Of the pool of metadata.
    metadata_placement_groups: int = Field(default=64, ge=1, le=4096)
    # The file that each OSD keeps everything in; it takes room only for what is written.
    size: Size = 16 * 2.0**30
    # What an OSD tries to keep to.
    osd_memory: Size = 1.5 * 2.0**30
    # The same for the monitor.
    monitor_memory: Size = 2.0 * 2.0**30
    # The cache of the metadata server.
    metadata_memory: Size = 1.0 * 2.0**30
    # Further settings of all servers and clients, such as { osd_op_num_shards = "2" }.
    settings: dict[str, str] = Field(default_factory=dict)

    @property
    def data_servers(self) -> int:
        """OSDs."""
        return self.osds

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.copies > self.osds:
            raise ValueError(f"copies: {self.copies} need {self.copies} osds or more")
        if self.copies_min > self.copies:
            raise ValueError(f"copies_min {self.copies_min} is above copies, {self.copies}")
        if self.osd_memory < OSD_MEMORY_MIN:
            raise ValueError("osd_memory: an OSD needs at least 896 MiB")
        if self.size < 2**30:
            raise ValueError("size: an OSD needs at least 1 GiB")
        return self


def configuration(
    options: Options, identity: uuid.UUID, monitor: str, own: Mapping[str, object]
) -> str:
    """The configuration file of a server or a client, with what is its own."""
    versions = zip(("v2", "v1"), MONITOR_PORTS, strict=True)
    addresses = ",".join(f"{version}:{monitor}:{port}" for version, port in versions)
    settings: dict[str, object] = {
        "fsid": identity,
        "mon host": f"[{addresses}]",
        "mon initial members": MONITOR,
        # Nobody else reaches the servers, and the thesis says nothing of keys.
        "auth cluster required": "none",
        "auth service required": "none",
        "auth client required": "none",
        "log to syslog": "false",
        "run dir": "/run/ceph",
        "osd pool default size": options.copies,
        "osd pool default min size": options.copies_min,
        "osd pool default pg autoscale mode": "off",
        "mon max pg per osd": 4096,
        "mon allow pool size one": "true",
        "mon warn on pool no redundancy": "false",
        # A disk of the host that is rather full says nothing of the file system under test.
        "mon data avail warn": 1,
        "mon data avail crit": 1,
        "mon memory target": f"{options.monitor_memory:.0f}",
        "mgr initial modules": "",
        "mds cache memory limit": f"{options.metadata_memory:.0f}",
        "osd objectstore": "bluestore",
        "osd memory target": f"{options.osd_memory:.0f}",
        "bluestore block size": f"{options.size:.0f}",
        "bluestore block create": "true",
        "bluestore block db create": "false",
        "bluestore block wal create": "false",
        **own,
        **options.settings,
    }
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items())


def server_settings(folder: Path, data: Path, address: str) -> dict[str, object]:
    """What is a server's own: address, and where data, log and process number lie."""
    return {
        "public addr": address,
        "cluster addr": address,
        "mon data": data,
        "mgr data": data,
        "mds data": data,
        "osd data": data,
        "keyring": folder / "keyring",
        "log file": folder / "server.log",
        "mon cluster log file": folder / "cluster.log",
        "admin socket": "/run/ceph/$name.asok",
        "pid file": folder / "server.pid",
    }


def client_settings(folder: Path) -> dict[str, object]:
    """What is a client's own: it is not in a mount namespace, and leaves no socket."""
    return {"admin socket": "", "pid file": folder / "mount.pid", "log file": folder / "mount.log"}


def command(folder: Path, *arguments: str) -> tuple[str, ...]:
    """A program of Ceph with the configuration of a folder."""
    program, *rest = arguments
    return privately(folder, PLACES, (program, "-c", str(folder / CONFIGURATION), *rest))
