"""Options of a GlusterFS under test, its volume, and what its servers are started with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from wattio.systems.cluster import ClusterOptions
from wattio.systems.private import privately

BRICKS_MAX = 64
VOLUME = "wattio"
PORT = 24007
CONFIGURATION = "glusterd.vol"

NAMES = ("/etc/hosts", "/etc/resolv.conf")
PLACES = (*NAMES, "/run", "/var/lib/glusterd", "/var/log/glusterfs")
"""What a glusterd and all that it starts see otherwise than others do: where they write beside the
folders that options name, and names. A server asks for the name of every other's address, and in a
namespace nobody answers: it would wait for minutes.
"""


class Options(ClusterOptions):
    """Bricks and volume of a GlusterFS: 4+1 as in the thesis, section 5.3."""

    bricks: int = Field(default=5, ge=1, le=BRICKS_MAX)  # each of a server of its own
    # Parts of each stripe and parity; whole copies; or whole files, each on one brick.
    volume: Literal["disperse", "replica", "distribute"] = "disperse"
    # Bricks of a dispersed volume that may fail.
    redundancy: int = Field(default=1, ge=1, le=16)
    # Copies of each file of a replicated volume.
    copies: int = Field(default=2, ge=2, le=9)
    # Of the volume, such as { "performance.quick-read" = "off" }.
    settings: dict[str, str] = Field(default_factory=dict)

    @property
    def data_servers(self) -> int:
        """Bricks."""
        return self.bricks

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.volume == "disperse" and self.bricks <= 2 * self.redundancy:
            raise ValueError(
                f"redundancy {self.redundancy} needs more than {2 * self.redundancy} bricks"
            )
        if self.volume == "replica" and self.bricks % self.copies:
            raise ValueError(f"copies: {self.bricks} bricks are not a multiple of {self.copies}")
        return self

    @property
    def heals(self) -> bool:
        """Whether a self-heal daemon belongs to the volume."""
        return self.volume != "distribute"

    @property
    def stripe_bytes(self) -> int | None:
        """Bytes of a stripe over the data bricks: 512 for each (thesis, equation 3.1)."""
        return 512 * (self.bricks - self.redundancy) if self.volume == "disperse" else None

    @property
    def stored_share(self) -> float:
        """Bytes on all bricks for each byte of files."""
        if self.volume == "disperse":
            return self.bricks / (self.bricks - self.redundancy)
        return float(self.copies) if self.volume == "replica" else 1.0


def configuration(folder: Path, address: str) -> str:
    """What a glusterd is started with: its address, and its files below its own folder."""
    options = {
        "working-directory": "/var/lib/glusterd",
        # Process numbers lie there: by their path a server is known as one of this run.
        "run-directory": f"{folder}/pids",
        "transport-type": "socket",
        "transport.socket.bind-address": address,
        "transport.address-family": "inet",
        "transport.socket.listen-port": PORT,
        "transport.socket.read-fail-log": "off",
        # Where these are missing, glusterd takes it for an error when it meets another, and hangs.
        "transport.socket.keepalive-time": 10,
        "transport.socket.keepalive-interval": 2,
        "ping-timeout": 0,
        "event-threads": 1,
        "base-port": 49152,
        "max-port": 60999,
    }
    lines = "".join(f"    option {name} {value}\n" for name, value in options.items())
    return f"volume management\n    type mgmt/glusterd\n{lines}end-volume\n"


def hosts(addresses: Sequence[str]) -> str:
    """Names of all servers, so that nobody is asked for them."""
    lines = [f"{address} server{n}" for n, address in enumerate(dict.fromkeys(addresses), start=1)]
    return "\n".join(["127.0.0.1 localhost", *lines, ""])


def glusterd(folder: Path) -> tuple[str, ...]:
    """The command that starts a glusterd."""
    files = ("-f", str(folder / CONFIGURATION), "-p", str(folder / "glusterd.pid"))
    return privately(folder, PLACES, ("glusterd", *files, "-l", str(log(folder, "glusterd.log"))))


def command_line(folder: Path, *arguments: str) -> tuple[str, ...]:
    """A command of `gluster` to the glusterd of a folder."""
    return privately(folder, PLACES, ("gluster", "--mode=script", *arguments))


def log(folder: Path, name: str) -> Path:
    """Where a server's log lies outside of its namespace."""
    return folder / "var/log/glusterfs" / name


def brick_log(folder: Path, brick: Path) -> Path:
    """The log of a brick's server, which is named for its path."""
    return log(folder, "bricks") / f"{str(brick)[1:].replace('/', '-')}.log"


def volume(options: Options, bricks: Sequence[str]) -> tuple[str, ...]:
    """What makes the volume of bricks `address:/path`, in words of `gluster`."""
    shape: tuple[str, ...] = ()
    if options.volume == "disperse":
        shape = ("disperse", str(options.bricks), "redundancy", str(options.redundancy))
    elif options.volume == "replica":
        shape = ("replica", str(options.copies))
    # Bricks on the host's own disk, and several on one host, are what is wanted here.
    return ("volume", "create", VOLUME, *shape, "transport", "tcp", *bricks, "force")
