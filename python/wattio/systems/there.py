"""Nodes on other machines: what `nodes.Here` does on this one, done by a host's agent."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from wattio.errors import HostError, HostLost, HostRefused, SystemFailed
from wattio.hosts.host import Host
from wattio.hosts.hosts import Hosts
from wattio.systems import mounts, servers
from wattio.systems.commands import TIMEOUT_S, answer, lack, wait_until
from wattio.systems.mounts import MOUNTINFO, Mount
from wattio.systems.nodes import ASKED_S, TAIL_BYTES, Node
from wattio.workloads.workload import REMOVED_S


@dataclass(frozen=True)
class There:
    """A node that is another machine."""

    host: Host

    def need(self, programs: Mapping[str, str], *, fuse: bool = True) -> None:
        """Raise HostError where something is missing to serve and to mount."""
        name, facts = self.host.name, self.host.facts
        try:
            found = self.host.ask("which", names=list(programs))
        except (HostLost, HostRefused) as error:
            raise HostError(str(error)) from error
        if missing := {one: programs[one] for one in programs if found[one] is None}:
            raise HostError(f"{name}: {lack(missing)}")
        if not facts["is_root"]:
            raise HostError(f"{name}: bringing up file systems needs root")
        if fuse and not facts["has_fuse"]:
            raise HostError(f"{name}: /dev/fuse is missing: its kernel has no FUSE (modprobe fuse)")

    def call(self, part: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run a program there; what it leaves in the background stays until the end."""
        # A server keeps the folder that it was started in, and may ask for it.
        ran = self.host.run(arguments, timeout_s=timeout_s, keeps=True, folder="/")
        where = f"{part} on {self.host.name}: {arguments[0]}"
        if ran.is_late:
            raise SystemFailed(f"{where} did not end within {timeout_s:g} s: {ran.last_words()}")
        if ran.code != 0:
            raise SystemFailed(f"{where} failed (exit code {ran.code}): {ran.last_words()}")
        return (ran.out + ran.err).decode(errors="replace")

    def answer(self, *arguments: str, timeout_s: float = ASKED_S) -> str | None:
        """Ask a program there."""
        try:
            return self.call("", *arguments, timeout_s=timeout_s).strip() or None
        except HostLost:
            raise
        except SystemFailed:
            return None

    def folder(self, path: Path) -> None:
        """Make a folder."""
        self.host.ask("folder", path=str(path))

    def write(self, path: Path, content: str | bytes) -> None:
        """Write a file."""
        data = content.encode() if isinstance(content, str) else content
        self.host.write(path, data, mode=None)

    def tail(self, path: Path) -> str:
        """The end of a file."""
        return (self.host.read(path, TAIL_BYTES) or b"").decode(errors="replace")

    def remove(self, path: Path) -> None:
        """Remove a file or a folder, but nothing that is mounted below it."""
        words = ("rm", "-rf", "--one-file-system", "--", str(path))
        ran = self.host.run(words, timeout_s=REMOVED_S)
        if ran.code != 0:
            raise SystemFailed(f"{self.host.name}: {path}: {ran.last_words()}")

    def running(self, names: Collection[str], folder: Path) -> list[int]:
        """Processes of that machine."""
        return [pid for pid, _ in self._running(names, folder)]

    def _running(self, names: Collection[str], folder: Path) -> list[tuple[int, int]]:
        """With their starts, which tell them from later ones of the same number."""
        return [
            (pid, start)
            for pid, start, command, place in self.host.ask("processes")
            if servers.belongs(os.fsencode(command), Path(place), names, folder)
        ]

    def end(self, names: Collection[str], folder: Path, grace_s: float) -> None:
        """End processes of that machine."""

        def told(number: signal.Signals) -> bool:
            if found := self._running(names, folder):
                self.host.ask("signal", processes=found, number=int(number))
            return not self._running(names, folder)

        if grace_s > 0:
            if told(signal.SIGTERM):
                return
            if wait_until(lambda: not self._running(names, folder), grace_s):
                return
        # In each round: one that was being started when the others were killed is seen later.
        if wait_until(lambda: told(signal.SIGKILL), servers.KILLED_S):
            return
        left = ", ".join(map(str, self.running(names, folder)))
        raise SystemFailed(f"{self.host.name}: processes {left} of {folder} did not end")

    def _mounts(self) -> list[Mount]:
        listed = self.host.read(MOUNTINFO) or b""
        return mounts.parse(listed.decode(errors="surrogateescape"))

    def mounts(self, folder: Path) -> list[Mount]:
        """Mounts of that machine."""
        return [one for one in reversed(self._mounts()) if one.point.is_relative_to(folder)]

    def take_away(self, folder: Path) -> None:
        """Take mounts of that machine away."""
        for mount in self.mounts(folder):
            point = str(mount.point)
            if self.answer("umount", point) is None and self.mounts(mount.point):
                self.call(f"unmounting {point}", "umount", "--lazy", point)
        if left := self.mounts(folder):
            raise SystemFailed(f"{self.host.name}: {left[0].point} is still mounted")

    def disk(self, folder: Path) -> dict[str, Any]:
        """What a folder of that machine lies on; its capacity is that of the file system."""
        mount = mounts.holding(folder, self._mounts())
        told = (self.answer("stat", "--file-system", "--format=%S %b", str(folder)) or "").split()
        size = int(told[0]) * int(told[1]) if len(told) == 2 else 0
        facts: dict[str, Any] = {"host": self.host.name, "raw_capacity_bytes": size}
        if mount is not None:
            # Disks of two machines may have one name.
            facts["device"] = f"{self.host.name}:{mount.source}"
            facts |= {"file_system": mount.file_system, "mount_point": str(mount.point)}
        return facts


class OnHosts:
    """A network of machines that are there: servers first, from `first_client` on the clients."""

    programs: Mapping[str, str] = {}

    def __init__(
        self,
        hosts: Hosts,
        servers: Sequence[str],
        clients: Sequence[str],
        first_client: int,
        root: Path,
    ) -> None:
        """Where there are fewer hosts than nodes, hosts are several nodes each, in turn."""
        self._hosts = hosts
        self._servers = list(servers)
        self._clients = list(clients)
        self._first_client = first_client
        self._root = root

    def name(self, node: int) -> str:
        """The host of a node."""
        if node >= self._first_client:
            return self._clients[(node - self._first_client) % len(self._clients)]
        return self._servers[(node - 1) % len(self._servers)]

    def machines(self) -> Sequence[Node]:
        """Every host that answers."""
        names = dict.fromkeys([*self._servers, *self._clients])
        return [There(self._hosts[name]) for name in names if self._hosts[name].is_open]

    def up(self) -> None:
        """Every host removes the folder of all, and what is mounted there, if we are gone."""
        self._hosts.each(lambda host: host.ask("folder", path=str(self._root), owned=True))

    def add(self, node: int) -> None:
        """Nothing is to be done."""

    def remove(self, node: int) -> None:
        """Nothing is to be done."""

    @cached_property
    def _addresses(self) -> dict[str, str]:
        return {name: _address(self._hosts[name]) for name in {*self._servers, *self._clients}}

    def subnet(self) -> ipaddress.IPv4Network:
        """The smallest network that all addresses are of."""
        found = [ipaddress.IPv4Address(text) for text in self._addresses.values()]
        subnet = ipaddress.IPv4Network(f"{min(found)}/32")
        while max(found) not in subnet:
            subnet = subnet.supernet()
        return subnet

    def address(self, node: int) -> str:
        """The address that its host is reached by."""
        return self._addresses[self.name(node)]

    def first_at(self, node: int) -> int:
        """The first node of its host."""
        return next(one for one in range(1, node + 1) if self.name(one) == self.name(node))

    def node(self, node: int) -> Node:
        """The host of a node."""
        return There(self._hosts[self.name(node)])

    def down(self) -> None:
        """Nothing is to be done."""


def _address(host: Host) -> str:
    """The address that ssh reaches a host by: others are taken to reach it by that, too."""
    told = answer("ssh", "-G", *host.access.ssh, host.name) or ""
    words = [line.split() for line in told.splitlines()]
    name = next((one[1] for one in words if one[:1] == ["hostname"] and one[1:]), host.name)
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise SystemFailed(f"{host.name}: {name} has no IPv4 address: {error}") from error
    return str(found[0][4][0])
