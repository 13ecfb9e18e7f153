"""Options of an OrangeFS under test, and the configuration file that all its servers have.

The file is written here, and not by `pvfs2-genconfig`: that one appends a server's name to each
folder, takes a file system's number at random, and needs Perl on every machine. What it writes was
what this one was modelled on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from wattio.files.quantity import Size
from wattio.systems.cluster import ClusterOptions
from wattio.systems.installed import Absolute

SERVERS_MAX = 64
FILE_SYSTEM = "orangefs"
CONFIGURATION = "orangefs.conf"
TAB = "pvfs2tab"
PORT = 13334
"""Ports: not the usual 3334, which an OrangeFS of this machine may have. Servers count on."""

ROOT_HANDLE = 1 << 20
_HANDLES_OF_METADATA = (3, 2**62)
_HANDLES_OF_DATA = (2**62 + 1, 2**63 - 2)
"""Numbers of files and of their parts, divided among servers as `pvfs2-genconfig` does."""

_FLOW_BUFFERS_MIN = 2

Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9,._:/-]+$", max_length=200)]


class Options(ClusterOptions):
    """Servers and storage of an OrangeFS: as in the thesis, section 5.2, one has the metadata."""

    io_servers: int = Field(default=4, ge=1, le=SERVERS_MAX)  # how many keep data
    # How many keep names and attributes, and no data.
    metadata_servers: int = Field(default=1, ge=1, le=SERVERS_MAX)
    # The folder that these keep them in, on the disk to be measured; below scratch if none.
    metadata: Absolute | None = None
    # The folder that it is installed below, such as "/opt/orangefs"; its programs are on PATH if
    # none.
    prefix: Absolute | None = None
    # pvfs2fuse, or the kernel's own.
    client: Literal["fuse", "kernel"] = "fuse"
    # How the parts of a file lie on servers.
    distribution: Literal["simple_stripe", "basic_dist", "twod_stripe"] = "simple_stripe"
    # Bytes of a file that lie on one server before the next one has its turn.
    stripe: Size = 65536.0
    # Groups of servers of a twod_stripe.
    groups: int = Field(default=2, ge=1, le=SERVERS_MAX)
    # How many stripes a group has before the next one has its turn.
    group_stripes: int = Field(default=256, ge=1, le=2**31 - 1)
    # How many servers a file is on; all if none.
    data_files: int | None = Field(default=None, ge=1, le=SERVERS_MAX)
    # Whether a change of metadata is on the disk before it is answered.
    sync_metadata: bool = True
    # Whether data are on the disk before it is answered.
    sync_data: bool = False
    # How servers write: threads, past the cache, or not at all.
    method: Literal["alt-aio", "directio", "null-aio"] = "alt-aio"
    # The size of a buffer between network and disk.
    flow_buffer: Size = 262144.0
    # How many of these each transfer has.
    flow_buffers: int = Field(default=8, ge=_FLOW_BUFFERS_MIN, le=1024)
    # Further lines of the file system, such as { DistrDirServersMax = "4" }.
    settings: dict[Word, Word] = Field(default_factory=dict)

    @property
    def data_servers(self) -> int:
        """Servers of data."""
        return self.io_servers

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.data_files is not None and self.data_files > self.io_servers:
            raise ValueError(
                f"data_files: {self.data_files} need {self.data_files} io_servers or more"
            )
        if self.distribution == "twod_stripe" and self.groups > self.io_servers:
            raise ValueError(f"groups: {self.groups} need {self.groups} io_servers or more")
        if self.client == "kernel" and self.network == "namespaces":
            raise ValueError(
                "client: the kernel has one for the whole machine, not one for each namespace"
            )
        return self


@dataclass(frozen=True)
class Server:
    """One server: its name in the configuration, where it listens, its folders."""

    alias: str
    address: str
    folder: Path
    """Of its log and process number."""
    store: Path
    """Of what it keeps."""

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / "server.log"


def configuration(
    options: Options, number: int, metadata: Sequence[Server], data: Sequence[Server]
) -> str:
    """The configuration file; `number` tells this file system from others."""
    hints = {
        "TroveSyncMeta": _yes(options.sync_metadata),
        "TroveSyncData": _yes(options.sync_data),
        "TroveMethod": options.method,
    }
    buffers = {
        "FlowBufferSizeBytes": f"{options.flow_buffer:.0f}",
        "FlowBuffersPerFlow": options.flow_buffers,
    }
    own = {"Name": FILE_SYSTEM, "ID": number, "RootHandle": ROOT_HANDLE, "FileStuffing": "no"}
    if options.data_files is not None:
        own["DefaultNumDFiles"] = options.data_files
    everybody = (*metadata, *data)
    return "".join(
        [
            _block("Defaults", _DEFAULTS, _block("Security", {"TurnOffTimeouts": "yes"})),
            _block("Aliases", {f"Alias {one.alias}": one.address for one in everybody}),
            _block(
                "FileSystem",
                {**own, **buffers, **options.settings},
                _block("MetaHandleRanges", _ranges(metadata, *_HANDLES_OF_METADATA)),
                _block("DataHandleRanges", _ranges(data, *_HANDLES_OF_DATA)),
                _block("StorageHints", hints),
                _distribution(options),
            ),
            *(_block("ServerOptions", _own(server)) for server in everybody),
        ]
    )


_DEFAULTS: Mapping[str, object] = {
    "UnexpectedRequests": 50,
    "EventLogging": "none",
    "EnableTracing": "no",
    "LogStamp": "datetime",
    "BMIModules": "bmi_tcp",
    "FlowModules": "flowproto_multiqueue",
    # Of its own address only, and not of all that its machine has.
    "TCPBindSpecific": "yes",
    "ServerJobBMITimeoutSecs": 30,
    "ServerJobFlowTimeoutSecs": 30,
    "ClientJobBMITimeoutSecs": 300,
    "ClientJobFlowTimeoutSecs": 300,
    "ClientRetryLimit": 5,
    "ClientRetryDelayMilliSecs": 2000,
}
"""What pvfs2-genconfig writes of OrangeFS 2.9 and 2.10, and the address that is bound to."""


def _own(server: Server) -> dict[str, object]:
    return {
        "Server": server.alias,
        "DataStorageSpace": server.store / "data",
        "MetadataStorageSpace": server.store / "meta",
        "LogFile": server.log,
    }


def _distribution(options: Options) -> str:
    values = {
        "simple_stripe": {"strip_size": options.stripe},
        "basic_dist": {},
        "twod_stripe": {
            "num_groups": options.groups,
            "strip_size": options.stripe,
            "group_strip_factor": options.group_stripes,
        },
    }[options.distribution]
    lines = [f"Param {name}\n\t\tValue {value:.0f}" for name, value in values.items()]
    told = "".join(f"\t\t{line}\n" for line in (f"Name {options.distribution}", *lines))
    return f"\t<Distribution>\n{told}\t</Distribution>\n"


def _ranges(servers: Sequence[Server], first: int, last: int) -> dict[str, object]:
    """Equal shares; the last one has what does not divide."""
    share = (last - first + 1) // len(servers)
    found: dict[str, object] = {}
    for at, server in enumerate(servers):
        begin = first + at * share
        end = last if at == len(servers) - 1 else begin + share - 1
        found[f"Range {server.alias}"] = f"{begin}-{end}"
    return found


def _block(name: str, settings: Mapping[str, object], *below: str) -> str:
    lines = "".join(f"\t{key} {value}\n" for key, value in settings.items())
    return f"<{name}>\n{lines}{''.join(below)}</{name}>\n"


def _yes(wanted: bool) -> str:
    return "yes" if wanted else "no"


def tab(source: str, point: Path) -> str:
    """The line of a mount, of the form of /etc/fstab, that OrangeFS's own tools look for."""
    return f"{source} {point} pvfs2 defaults,noauto 0 0\n"
