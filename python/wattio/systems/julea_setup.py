"""Options of a JULEA under test, and how its own tool is asked for the configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from wattio.files.quantity import Size
from wattio.systems.cluster import ClusterOptions
from wattio.systems.installed import Absolute

SERVERS_MAX = 64
CONFIGURATION = "julea.conf"
PORT = 14711
"""Ports: not the usual ones, 4711 and on, which a JULEA of this machine may have."""

_IN_A_FILE = ("gdbm", "sqlite")
"""Backends that keep everything in a file; others have a folder."""

FOLDERS = ("object", "kv", "db")
"""What a server may keep, each in a folder of its name."""

BEHIND = 'cd "$1"; shift; setsid "$@" >server.log 2>&1 </dev/null &'
"""Starts a server in a folder, by which it is known, and leaves it there.

Its own `--daemon` goes to the root folder, and its log to the journal of the system.
"""


class Options(ClusterOptions):
    """Servers and backends of a JULEA: those of the thesis, section 5.6."""

    # Its servers listen on all addresses that there are where they run: in a namespace, on one.
    network: Literal["loopback", "namespaces"] = "namespaces"
    object_servers: int = Field(default=5, ge=1, le=SERVERS_MAX)  # how many keep content
    # How many of them also keep names and sizes.
    kv_servers: int = Field(default=1, ge=1, le=SERVERS_MAX)
    # How many of them also have a database; no mount asks them anything.
    db_servers: int = Field(default=1, ge=1, le=SERVERS_MAX)
    # The folder that it is installed below, such as "/opt/julea"; its programs are on PATH if none.
    prefix: Absolute | None = None
    # What content is kept in.
    object_backend: Literal["posix", "gio", "null"] = "posix"
    # What names and sizes are kept in.
    kv_backend: Literal["lmdb", "leveldb", "rocksdb", "sqlite", "gdbm", "null"] = "lmdb"
    # What tables are kept in.
    db_backend: Literal["sqlite", "null"] = "sqlite"
    # Of distributed objects, which programs of JULEA's own have; a mount has whole files.
    stripe: Size = 4 * 2.0**20
    # The most that one request asks for.
    operation_size: Size = 8 * 2.0**20
    # Of a client to each server; as many as it has processors if 0.
    connections: int = Field(default=0, ge=0, le=4096)

    @property
    def data_servers(self) -> int:
        """Servers, all of which keep content."""
        return self.object_servers

    @model_validator(mode="after")
    def _agree(self) -> Options:
        for key in ("kv_servers", "db_servers"):
            count = getattr(self, key)
            if count > self.object_servers:
                raise ValueError(f"{key}: {count} need {count} object_servers or more")
        return self


def arguments(options: Options, addresses: Sequence[str], stores: Path) -> list[str]:
    """What `julea-config` is told; it prints the file where no place is named.

    `addresses` are those of all servers, with ports, and `stores` is where each finds a folder of
    its own, named for its port: JULEA wants one configuration for all.
    """
    told: dict[str, object] = {"port": PORT}
    counts = {
        "object": options.object_servers,
        "kv": options.kv_servers,
        "db": options.db_servers,
    }
    for kind, count in counts.items():
        backend = getattr(options, f"{kind}_backend")
        told[f"{kind}-servers"] = ",".join(addresses[:count])
        told[f"{kind}-backend"] = backend
        # JULEA puts a server's port there.
        path = stores / "{PORT}" / kind
        told[f"{kind}-path"] = path / "all" if backend in _IN_A_FILE else path
    told["max-operation-size"] = f"{options.operation_size:.0f}"
    told["max-connections"] = options.connections
    told["stripe-size"] = f"{options.stripe:.0f}"
    return [f"--{name}={value}" for name, value in told.items()]
