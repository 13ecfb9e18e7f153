"""A file system that others have mounted on the clients' hosts, whichever it is.

    [hosts]
    clients = "node[1-4]"

    [[system]]
    name = "beegfs"
    kind = "mounted"
    options = { path = "/mnt/beegfs", fs = "beegfs" }

Nothing is deployed. Each client works in a folder of its host's mount, which is the same on all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from pydantic import Field, field_validator

from wattio.errors import HostError, HostLost, HostRefused, SystemFailed
from wattio.files.document import Strict
from wattio.hosts.host import Host
from wattio.hosts.hosts import Hosts
from wattio.systems import mounts
from wattio.systems.mounts import MOUNTINFO, Mount
from wattio.workloads.workload import REMOVED_S, Place

_ASKED_S = 20.0


class Options(Strict):
    """Where it is mounted, and what it has to be."""

    path: str = Field(max_length=4096)  # a folder on it, the same on all hosts
    fs: str | None = None  # the type that /proc/mounts has to show, such as "fuse.glusterfs"
    shared: bool = True  # all hosts see the same files; not so for disks of their own

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not path.startswith("/") or "\0" in path:
            raise ValueError(f'"{path}" must be absolute, as in "/mnt/beegfs"')
        return path


class Storage:
    """A mounted file system."""

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `mount`."""
        self._options = options
        # Two runs do not meet: each has a folder for its own scratch folder.
        mark = hashlib.sha256(str(scratch.resolve()).encode()).hexdigest()[:8]
        self._work = Path(options.path) / f"wattio-work-{mark}"
        self._hosts: Hosts | None = None
        self._clients: Sequence[str] = ()
        self._places: list[Place] = []

    def take(self, hosts: Hosts, clients: Sequence[str], servers: Sequence[str]) -> Self:
        """Clients are on these hosts; servers are none of ours."""
        self._hosts, self._clients = hosts, clients
        return self

    def probe(self) -> None:
        """Raise HostError where a host does not have it mounted."""
        if self._hosts is None:
            raise HostError(
                'kind "mounted" is for hosts: name them ([hosts]); on this machine use kind "local"'
                " with a path"
            )
        try:
            self._hosts.each(self._mount_of, self._clients)
        except (HostLost, HostRefused, SystemFailed) as error:
            raise HostError(str(error)) from error

    def _mount_of(self, host: Host) -> Mount:
        """What the folder lies on there. Raises SystemFailed where it is not what was asked for."""
        path, fs = self._options.path, self._options.fs
        listed = (host.read(MOUNTINFO) or b"").decode(errors="surrogateescape")
        found = mounts.holding(Path(path), mounts.parse(listed))
        if found is None or (fs is None and str(found.point) == "/" and self._options.shared):
            raise SystemFailed(f"{host.name}: nothing is mounted on {path}")
        if fs is not None and found.file_system != fs:
            raise SystemFailed(f"{host.name}: {path} is on {found.file_system}, not on {fs}")
        return found

    def deploy(self) -> None:
        """Remove what a dead run has left."""
        self.clean()

    def start(self) -> None:
        """Nothing runs."""

    def mount(self, clients: int) -> Sequence[Place]:
        """Make the folder that all clients work in."""
        hosts = self._named()
        hosts.each(self._make_folder, self._clients)
        names = self._clients
        self._places = [Place(self._work, names[at % len(names)]) for at in range(clients)]
        if self._options.shared:
            self._see_the_same(hosts)
        return self._places

    def _make_folder(self, host: Host) -> None:
        """Make the work folder; what one host has made for all goes when that host is lost."""
        is_own = not self._options.shared or host.name == self._clients[0]
        host.ask("folder", path=str(self._work), owned=is_own)

    def _see_the_same(self, hosts: Hosts) -> None:
        """Raise SystemFailed where a host does not see what another one has written."""
        first, file, token = self._clients[0], self._work / "same", uuid4().hex.encode()
        hosts[first].write(file, token)
        for name, read in hosts.each(lambda host: host.read(file), self._clients).items():
            if read != token:
                raise SystemFailed(
                    f"{name}: does not see what {first} wrote into {self._work}; if each has"
                    " its own disk, set shared = false"
                )

    def verify_mount(self) -> None:
        """Raise SystemFailed where a host that answers has it mounted no more."""
        there = [name for name in self._clients if self._named()[name].is_open]
        self._named().each(self._mount_of, there)
        if self._places:
            # Of a host that was lost and is back it may have been removed.
            self._named().each(self._make_folder, there)

    def describe(self) -> dict[str, Any]:
        """What each host shows of the mount, and its space."""
        found = self._named().each(self._mount_of, self._clients)
        one = found[self._clients[0]]
        shown = self._named()[self._clients[0]].run(
            ["stat", "--file-system", "--format=%S %b %a", self._options.path], timeout_s=_ASKED_S
        )
        facts: dict[str, Any] = {
            "file_system": one.file_system,
            "source": one.source,
            "mount_point": str(one.point),
            "mount_options": list(one.options),
        }
        words = shown.out.split()
        if shown.code == 0 and len(words) == 3 and all(word.isdigit() for word in words):
            block, blocks, free = map(int, words)
            facts |= {"size_bytes": block * blocks, "free_bytes": block * free}
        return facts

    def processes(self) -> list[int]:
        """None on this machine."""
        return []

    def unmount(self) -> None:
        """It stays mounted."""
        self._places = []

    def stop(self) -> None:
        """Nothing runs."""

    def clean(self) -> None:
        """Remove the work folder; a host that is lost keeps its own."""
        if self._hosts is None:
            return  # It lies on hosts: the next run on them removes it.
        words = ("rm", "-rf", "--one-file-system", "--", str(self._work))
        chosen = self._clients[:1] if self._options.shared else self._clients
        for name in chosen:
            if self._hosts[name].is_open:
                done = self._hosts[name].run(words, timeout_s=REMOVED_S)
                if done.code != 0:
                    raise SystemFailed(f"{name}: {self._work}: {done.last_words()}")

    def _named(self) -> Hosts:
        if self._hosts is None:
            raise SystemFailed("no hosts are named")
        return self._hosts
