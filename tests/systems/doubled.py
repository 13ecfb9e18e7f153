"""Nodes on which doubles of programs run: neither root nor FUSE is needed.

Doubles are installed below a folder, as the real programs are, and mounts are lines of a file.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattio.systems import commands, servers
from wattio.systems.mounts import Mount
from wattio.systems.nodes import Here, Node

from systems.doubles import MOUNTS

TESTS = Path(__file__).parents[1]


def install(prefix: Path, module: str, folders: Mapping[str, str]) -> Path:
    """Have programs below a folder, each in its subfolder; what they know lies in `state`."""
    for name, folder in folders.items():
        program = prefix / folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        double = TESTS / "systems" / "doubles" / f"{module}.py"
        text = f'#!/bin/sh\nPYTHONPATH={TESTS} exec {sys.executable} {double} "$0" "$@"\n'
        program.write_text(text)
        program.chmod(0o755)
    (prefix / "state").mkdir()
    (prefix / "state" / MOUNTS).touch()
    return prefix


@dataclass(frozen=True)
class Double(Here):
    """A node whose mounts are lines of a file, which the doubles write."""

    prefix: Path = Path()

    def need(self, programs: Mapping[str, str], *, fuse: bool = True) -> None:
        """Programs only."""
        commands.need(programs)

    def mounts(self, folder: Path) -> list[Mount]:
        """Of the lines, those whose program is still there."""
        found = []
        for line in (self.prefix / "state" / MOUNTS).read_text().splitlines():
            point, kind, source = line.split("\t")
            if Path(point).is_relative_to(folder):
                found.append(Mount(Path(point), kind, source, (), "0:1"))
        return found[::-1]

    def take_away(self, folder: Path) -> None:
        """Have the programs of mounts end, as an unmount does."""
        file = self.prefix / "state" / MOUNTS
        for mount in self.mounts(folder):
            servers.end(["pvfs2fuse", "julea-fuse"], mount.point, 5.0)
        lines = [line for line in file.read_text().splitlines() if not line.startswith(str(folder))]
        file.write_text("".join(f"{line}\n" for line in lines))


@dataclass
class Doubles:
    """A network of doubles, each with an address of its own."""

    prefix: Path
    programs: Mapping[str, str] = field(default_factory=dict)

    def machines(self) -> Sequence[Node]:
        """This one."""
        return (self.node(1),)

    def up(self) -> None:
        """Nothing is to be done."""

    def add(self, node: int) -> None:
        """Nothing is to be done."""

    def remove(self, node: int) -> None:
        """Nothing is to be done."""

    def subnet(self) -> ipaddress.IPv4Network:
        """Of all addresses."""
        return ipaddress.IPv4Network("10.9.8.0/24")

    def address(self, node: int) -> str:
        """A node's."""
        return f"10.9.8.{node}"

    def first_at(self, node: int) -> int:
        """None is shared."""
        return node

    def node(self, node: int) -> Node:
        """Where its commands run."""
        return Double(prefix=self.prefix)

    def down(self) -> None:
        """Nothing is to be done."""
