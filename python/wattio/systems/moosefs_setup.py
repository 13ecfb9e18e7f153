"""Options of a MooseFS under test, and the configuration files that follow from them."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from wattio.files.quantity import SecondsOrZero
from wattio.systems.cluster import ClusterOptions
from wattio.systems.networks import Network

META_PORT = 19419
SERVER_PORT = 19420
CLIENT_PORT = 19421
CHUNK_PORT = 19500
"""Ports: not the usual ones, which a MooseFS of this machine may have. Chunk servers count on."""

CHUNK_SERVERS_MAX = 64
MASTER_NODE = 1

ATIME_NEVER = 4
"""MooseFS's ATIME_MODE in which reading never changes an access time, as in the thesis, 5.4."""

CONFIGURATION = "server.cfg"
"""The file that a server is started with, in the folder of its own."""

EMPTY_METADATA = b"MFSM NEW"
"""What a master starts from that has no files yet."""


class Options(ClusterOptions):
    """Servers and replication of a MooseFS."""

    chunk_servers: int = Field(default=2, ge=1, le=CHUNK_SERVERS_MAX)  # how many
    # How many copies of each file are kept.
    goal: int = Field(default=1, ge=1, le=9)
    # How long deleted files are kept. Zero for metadata workloads, which would fill the memory.
    trash_time: SecondsOrZero = 86_400.0

    @property
    def data_servers(self) -> int:
        """Chunk servers."""
        return self.chunk_servers

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.goal > self.chunk_servers:
            raise ValueError(f"goal {self.goal} needs {self.goal} chunk_servers or more")
        return self


def write_master(folder: Path, network: Network) -> None:
    """Write the master's configuration into its folder."""
    node = network.node(MASTER_NODE)
    node.write(folder / "data" / "metadata.mfs", EMPTY_METADATA)
    subnet = network.subnet()
    exports = f"{subnet} / rw,alldirs,admin,maproot=0:0\n{subnet} . rw\n"
    node.write(folder / "exports.cfg", exports)
    address = network.address(MASTER_NODE)
    settings: dict[str, object] = {
        "DATA_PATH": folder / "data",
        "EXPORTS_FILENAME": folder / "exports.cfg",
        "ATIME_MODE": ATIME_NEVER,
        "REPLICATIONS_DELAY_INIT": 0,
    }
    for name, port in (("ML", META_PORT), ("CS", SERVER_PORT), ("CL", CLIENT_PORT)):
        settings[f"MATO{name}_LISTEN_HOST"] = address
        settings[f"MATO{name}_LISTEN_PORT"] = port
    node.write(folder / CONFIGURATION, _text(settings))


def write_chunk_server(folder: Path, number: int, data: Path, network: Network) -> None:
    """Write a chunk server's configuration into its folder, and make its folder for data."""
    node = network.node(MASTER_NODE + number)
    node.folder(data)
    node.folder(folder / "data")
    node.write(folder / "disks.cfg", f"{data}\n")
    settings = {
        "DATA_PATH": folder / "data",
        "HDD_CONF_FILENAME": folder / "disks.cfg",
        "MASTER_HOST": network.address(MASTER_NODE),
        "MASTER_PORT": SERVER_PORT,
        "MASTER_RECONNECTION_DELAY": 1,
        "BIND_HOST": network.address(MASTER_NODE + number),
        "CSSERV_LISTEN_HOST": network.address(MASTER_NODE + number),
        "CSSERV_LISTEN_PORT": CHUNK_PORT + number,
    }
    node.write(folder / CONFIGURATION, _text(settings))


def _text(settings: dict[str, object]) -> str:
    # NICE_LEVEL is -19 where nothing is said, which would favour servers over their clients.
    common = {"WORKING_USER": "root", "WORKING_GROUP": "root", "NICE_LEVEL": 0, "LOCK_MEMORY": 0}
    return "".join(f"{key} = {value}\n" for key, value in {**common, **settings}.items())
