"""A node of a storage system in the guest: what a system does at a node, it does there.

The guest asks the host for commands over QEMU's user network, one at a time, and says how each
ended; the host's end is `GuestNode`, of the shape of `wattio.systems.nodes.Node`.
"""

from __future__ import annotations

import base64
import contextlib
import shlex
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from wattio.errors import HostError, SystemFailed
from wattio.systems import commands, mounts
from wattio.systems.commands import TIMEOUT_S
from wattio.systems.mounts import MOUNTINFO, Mount
from wattio.systems.nodes import ASKED_S, Here

from guest.guest import Guest
from guest.image import Content
from guest.target import HOST

BOOT_S = 60.0
MARGIN_S = 5.0

NETWORK = ("-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=")

# Each line is a command in base64, and so is each answer, with the exit code in its last line.
OBEY = """#!/bin/sh
while read -r line; do
    echo "$line" | base64 -d > /tmp/command
    { sh /tmp/command < /dev/null 2>&1; printf '\\n%s' $?; } > /tmp/said
    base64 /tmp/said | tr -d '\\n'
    echo
done
"""

CONNECT = """
modprobe -a virtio_pci virtio_net
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via {host}
chmod +x /obey
nc {host} {port} -e /obey
"""


@dataclass(frozen=True)
class GuestNode(Here):
    """The guest, as a client's node: no servers run there."""

    ears: socket.socket | None = None
    brought: tuple[str, ...] = ()
    """Programs that the guest has from the host, in place of its shell's own."""

    def need(self, programs: Mapping[str, str], *, fuse: bool = True) -> None:
        """Nothing more than was brought: what servers need is not looked for."""
        if missing := [name for name in self.brought if self.answer("which", name) is None]:
            raise HostError(f"guest: missing: {', '.join(missing)}")

    def call(self, part: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run a program in the guest."""
        program, *rest = arguments
        # Its shell, which is busybox, takes its own before it looks for others.
        file = f"/usr/local/bin/{program}" if program in self.brought else program
        limited = ("timeout", "-k", "1", f"{timeout_s:.0f}", file, *rest)
        code, said = self._run(limited, timeout_s)
        if code != 0:
            words = commands.last_words(said)
            raise SystemFailed(f"{part}: {arguments[0]} failed (exit code {code}): {words}")
        return said

    def _run(self, arguments: Iterable[str], timeout_s: float) -> tuple[int, str]:
        assert self.ears is not None
        self.ears.settimeout(timeout_s + MARGIN_S)
        self.ears.sendall(base64.b64encode(shlex.join(arguments).encode()) + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            chunk = self.ears.recv(1 << 16)
            if not chunk:
                raise SystemFailed("the guest has gone")
            answer += chunk
        said, _, code = base64.b64decode(answer).decode(errors="replace").rpartition("\n")
        return int(code), said

    def answer(self, *arguments: str, timeout_s: float = ASKED_S) -> str | None:
        """Ask a program in the guest."""
        try:
            return self.call("", *arguments, timeout_s=timeout_s).strip() or None
        except SystemFailed:
            return None

    def folder(self, path: Path) -> None:
        """Make a folder."""
        self.call("folder", "mkdir", "-p", str(path))

    def write(self, path: Path, content: str | bytes) -> None:
        """Write a file that is text."""
        assert isinstance(content, str)
        self.call("file", "sh", "-c", 'printf %s "$1" > "$2"', "sh", content, str(path))

    def tail(self, path: Path) -> str:
        """The end of a file."""
        return self.answer("tail", "-c", "8192", str(path)) or ""

    def remove(self, path: Path) -> None:
        """Remove a file or a folder."""
        self.call("remove", "rm", "-rf", str(path))

    def running(self, names: Collection[str], folder: Path) -> list[int]:
        """None: its client is the kernel's."""
        return []

    def end(self, names: Collection[str], folder: Path, grace_s: float) -> None:
        """Nothing is to be done."""

    def mounts(self, folder: Path) -> list[Mount]:
        """Mounts of the guest."""
        listed = mounts.parse(self.call("mounts", "cat", str(MOUNTINFO)))
        return [mount for mount in reversed(listed) if mount.point.is_relative_to(folder)]

    def take_away(self, folder: Path) -> None:
        """Take mounts of the guest away."""
        for mount in self.mounts(folder):
            if self.answer("umount", str(mount.point)) is None:
                self.answer("umount", "-l", str(mount.point))
        if self.mounts(folder):
            raise SystemFailed(f"guest: {folder} is still mounted")


@contextlib.contextmanager
def guest_node(
    guest: Guest,
    programs: Sequence[Path],
    prepare: str,
    files: Mapping[str, Content],
    limit_s: float,
) -> Iterator[GuestNode]:
    """A guest that obeys while entered, and is gone after `limit_s` in any case."""
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        door.settimeout(min(BOOT_S, limit_s))
        script = prepare + CONNECT.format(host=HOST, port=door.getsockname()[1])
        booted = pool.submit(
            guest.run,
            programs,
            script,
            files={"/obey": OBEY, "/etc/mtab": "", **files},
            devices=NETWORK,
            timeout_s=limit_s,
        )
        try:
            ears, _ = door.accept()
        except TimeoutError:
            booted.result()
            raise
        with ears:
            yield GuestNode(ears=ears, brought=tuple(path.name for path in programs))
        booted.result()
