"""Nodes: where a server or a client runs, and all that is done there.

A system speaks to its nodes by number, through its network (`network.node(3).call(...)`), and never
asks which machine that is: a command is run at a node, a file is written at a node, processes are
found and ended at a node. `Here` is a node on this machine, in a namespace or in none. A node
elsewhere is another class of this shape, given out by another network.

Several nodes may be one machine: what concerns all of a machine, such as ending what a dead run has
left on it, is done once for each of `network.machines()`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wattio.errors import HostError
from wattio.systems import commands, devices, mounts, servers
from wattio.systems.commands import TIMEOUT_S
from wattio.systems.mounts import Mount

FUSE = Path("/dev/fuse")

ASKED_S = 10.0
# For modules of the kernel, several of which a busy or an emulated machine takes long to load.
LOADING_S = 60.0
TAIL_BYTES = 8192


class Node(Protocol):
    """A place for servers and clients. Paths are those of its machine."""

    def need(self, programs: Mapping[str, str], *, fuse: bool = True) -> None:
        """Raise HostError: a program that is missing and its package, no root, or no FUSE."""

    def call(self, part: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run a program to its end, or until it is in the background; what it said.

        Raises SystemFailed with the part's name and its last words.
        """

    def answer(self, *arguments: str, timeout_s: float = ASKED_S) -> str | None:
        """What a program says; None if it fails, is missing or says nothing."""

    def folder(self, path: Path) -> None:
        """Make a folder, and those above it; one that is there stays."""

    def write(self, path: Path, content: str | bytes) -> None:
        """Write a file, in a folder that is made where it is missing."""

    def tail(self, path: Path) -> str:
        """The end of a file; nothing where there is none."""

    def remove(self, path: Path) -> None:
        """Remove a file or a folder with all in it, if it is there."""

    def running(self, names: Collection[str], folder: Path) -> list[int]:
        """Processes of its machine, of such names, that belong to a folder."""

    def end(self, names: Collection[str], folder: Path, grace_s: float) -> None:
        """Ask these processes to end, and kill them after `grace_s`. Raises SystemFailed."""

    def mounts(self, folder: Path) -> list[Mount]:
        """What is mounted on its machine on a folder or below it, the last one first."""

    def take_away(self, folder: Path) -> None:
        """Unmount all of that, also where a server has died. Raises SystemFailed."""

    def disk(self, folder: Path) -> dict[str, Any]:
        """Facts of the disk that a folder lies on, `raw_capacity_bytes` among them."""


@dataclass(frozen=True)
class Here:
    """A node on this machine; `enter` stands before each command, to run it in its network."""

    enter: tuple[str, ...] = ()

    def need(self, programs: Mapping[str, str], *, fuse: bool = True) -> None:
        """Raise HostError where something is missing to serve and to mount."""
        commands.need(programs)
        if os.geteuid() != 0:
            raise HostError("mounting file systems and making their network needs root")
        if fuse and not FUSE.exists():
            raise HostError(f"{FUSE} is missing: this kernel has no FUSE (modprobe fuse)")

    def call(self, part: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run a program in the node's network."""
        return commands.call(part, *self.enter, *arguments, timeout_s=timeout_s)

    def answer(self, *arguments: str, timeout_s: float = ASKED_S) -> str | None:
        """Ask a program in the node's network."""
        return commands.answer(*self.enter, *arguments, timeout_s=timeout_s)

    def folder(self, path: Path) -> None:
        """Make a folder."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, content: str | bytes) -> None:
        """Write a file."""
        self.folder(path.parent)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def tail(self, path: Path) -> str:
        """The end of a file."""
        try:
            with path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def remove(self, path: Path) -> None:
        """Remove a file or a folder."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def running(self, names: Collection[str], folder: Path) -> list[int]:
        """Processes of this machine."""
        return servers.running(names, folder)

    def end(self, names: Collection[str], folder: Path, grace_s: float) -> None:
        """End processes of this machine."""
        servers.end(names, folder, grace_s)

    def mounts(self, folder: Path) -> list[Mount]:
        """Mounts of this machine."""
        return mounts.below(folder)

    def take_away(self, folder: Path) -> None:
        """Take mounts of this machine away."""
        mounts.take_away(folder)

    def disk(self, folder: Path) -> dict[str, Any]:
        """Facts of a disk of this machine."""
        return devices.describe(folder)
