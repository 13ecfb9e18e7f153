"""Options of a MooseFS under test, and the configuration files that follow from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from wattio.files.document import Strict
from wattio.files.quantity import SecondsOrZero
from wattio.systems.networks import NODES_MAX, Network, parse_rate, parse_subnet

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


def _subnet(text: str) -> str:
    return str(parse_subnet(text))


def _rate(text: str) -> str:
    parse_rate(text)
    return text


class Options(Strict):
    """Servers, replication and network of a MooseFS."""

    chunk_servers: int = Field(default=2, ge=1, le=CHUNK_SERVERS_MAX)  # how many, all on this host
    # How many copies of each file are kept.
    goal: int = Field(default=1, ge=1, le=9)
    # How long deleted files are kept. Zero for metadata workloads, which would fill the memory.
    trash_time: SecondsOrZero = 86_400.0
    # All on loopback addresses, or each in a namespace of its own.
    network: Literal["loopback", "namespaces"] = "loopback"
    # A free one of 10.77.x.0/24 on loopback, 10.79.0.0/24 between namespaces.
    subnet: Annotated[str, AfterValidator(_subnet)] | None = None
    # Rate of each namespace's leg to the bridge, in each direction.
    leg: Annotated[str, AfterValidator(_rate)] = "1 Gbit/s"
    # One folder for each chunk server, on the disks to be measured; below scratch if none.
    data: list[str] = Field(default_factory=list)
    # Further options of mfsmount, such as "mfscachemode=NEVER".
    mount_options: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.goal > self.chunk_servers:
            raise ValueError(f"goal {self.goal} needs as many chunk_servers, not less")
        if self.data and len(self.data) != self.chunk_servers:
            raise ValueError(f"data: {len(self.data)} folders for {self.chunk_servers} servers")
        for folder in self.data:
            if not Path(folder).is_absolute():
                raise ValueError(f'data: "{folder}" must be absolute, as in "/disk1/chunks"')
        if len(set(self.data)) != len(self.data):
            raise ValueError("data: each chunk server needs a folder of its own")
        return self


def chunk_node(number: int) -> int:
    """The node of a chunk server, numbered from 1."""
    return MASTER_NODE + number


def client_node(number: int, options: Options) -> int:
    """The node of a client, numbered from 1."""
    return MASTER_NODE + options.chunk_servers + number


def clients_max(options: Options) -> int:
    """How many clients find addresses."""
    return NODES_MAX - MASTER_NODE - options.chunk_servers


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
    node = network.node(chunk_node(number))
    node.folder(data)
    node.folder(folder / "data")
    node.write(folder / "disks.cfg", f"{data}\n")
    settings = {
        "DATA_PATH": folder / "data",
        "HDD_CONF_FILENAME": folder / "disks.cfg",
        "MASTER_HOST": network.address(MASTER_NODE),
        "MASTER_PORT": SERVER_PORT,
        "MASTER_RECONNECTION_DELAY": 1,
        "BIND_HOST": network.address(chunk_node(number)),
        "CSSERV_LISTEN_HOST": network.address(chunk_node(number)),
        "CSSERV_LISTEN_PORT": CHUNK_PORT + number,
    }
    node.write(folder / CONFIGURATION, _text(settings))


def _text(settings: dict[str, object]) -> str:
    # NICE_LEVEL is -19 where nothing is said, which would favour servers over their clients.
    common = {"WORKING_USER": "root", "WORKING_GROUP": "root", "NICE_LEVEL": 0, "LOCK_MEMORY": 0}
    return "".join(f"{key} = {value}\n" for key, value in {**common, **settings}.items())
