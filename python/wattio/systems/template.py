"""How a storage system is added: copy this file, and replace what is marked by STEP.

This one is complete and works: its "server" is a folder in memory that is mounted for each client.
It is not in `wattio.systems.KINDS`, so no study finds it. STEP 8: list yours there.

STEP 0: say here what the system is, which packages it comes from, how its options are written in a
study file, and where its settings come from (which document, which section).

    [[system]]
    name = "template"
    options = { size = "64 MiB" }
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wattio.errors import HostError, SystemFailed
from wattio.files.document import Strict
from wattio.files.quantity import Size
from wattio.systems import devices, mounts
from wattio.systems.commands import call, need, remove_if_empty
from wattio.workloads.workload import Place

# STEP 1: the programs that are needed, and the Debian package that has each. Add the packages to
# `.ci/run`, so that the system tests run in continuous integration.
_PROGRAMS = {"mount": "mount", "umount": "mount"}

# STEP 2: the type that a mount of this system has in /proc/self/mountinfo.
FILE_SYSTEM = "tmpfs"


class Options(Strict):
    """STEP 3: what a study file may say; quantities are text with a unit (`study.quantity`).

    Every option has a default that works on one machine, and what does not agree is refused here
    (a `model_validator`, as in `moosefs_setup`), before anything has been started.
    """

    size: Size = 64 * 2.0**20


class Storage:
    """STEP 4: the system. The scratch folder is its own: keep everything below it.

    What cannot lie below it (addresses, namespaces, processes) bears a mark that follows from the
    scratch folder (`networks`, `servers`). Then a run that was killed leaves nothing that the next
    one of the same folder does not find, and two systems can run side by side.
    """

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made here, and nothing is looked for."""
        self._options = options
        self._root = scratch.resolve() / "template"
        self._server = self._root / "server"
        self._mounts = self._root / "clients"
        self._points: list[Path] = []

    def probe(self) -> None:
        """Raise HostError: what is missing, and how to get it. Changes nothing."""
        need(_PROGRAMS)
        if os.geteuid() != 0:
            raise HostError("mounting needs root")

    def deploy(self) -> None:
        """Remove what a dead run left, then write configuration and make folders."""
        self.clean()
        self._server.mkdir(parents=True)

    def start(self) -> None:
        """STEP 5: start the servers, and wait until they serve, not only until they run.

        `commands.call` runs a program to its end and raises SystemFailed with its last words;
        `commands.wait_until` asks for a state with a limit of time. A server that already runs is
        left alone (`servers.running`).
        """
        if self._served():
            return
        size = f"size={self._options.size:.0f}"
        call("server", "mount", "-t", FILE_SYSTEM, "-o", size, "template", str(self._server))

    def _served(self) -> bool:
        return _is_mounted(self._server)

    def mount(self, clients: int) -> Sequence[Place]:
        """STEP 6: mount it for each client; all places show the same files.

        A client of its own is a process of its own, with its own cache, and where there are
        namespaces its own network (`Network.node`). What is mounted already stays.
        """
        self._points = [self._mounts / str(number) for number in range(1, clients + 1)]
        for number, point in enumerate(self._points, start=1):
            if not _is_mounted(point):
                point.mkdir(parents=True, exist_ok=True)
                call(f"client {number}", "mount", "--bind", str(self._server), str(point))
        return [Place(point) for point in self._points]

    def verify_mount(self) -> None:
        """Raise SystemFailed where a place is not on this system: that would go unnoticed."""
        if not self._points:
            raise SystemFailed("nothing is mounted")
        for number, point in enumerate(self._points, start=1):
            if not _is_mounted(point):
                raise SystemFailed(f"client {number}: {point} is not mounted")
            if os.statvfs(point).f_bavail == 0:
                raise SystemFailed(f"client {number}: {point} has no space left")

    def describe(self) -> dict[str, Any]:
        """STEP 7: all that results depend on, as plain data: versions, copies, disks, options.

        What is not known is left out. `raw_capacity_bytes` counts each disk once.
        """
        return {**self._options.model_dump(mode="json"), **devices.describe(self._server)}

    def processes(self) -> list[int]:
        """Its servers and mounts (`servers.running`); a folder in memory has none."""
        return []

    def unmount(self) -> None:
        """Take every mount of a client away, also those that this object knows nothing of."""
        mounts.take_away(self._mounts)
        self._points = []

    def stop(self) -> None:
        """Stop the servers: ask, wait, and only then kill (`servers.end`)."""
        mounts.take_away(self._server)

    def clean(self) -> None:
        """Remove everything, whatever of it there is; also without `unmount` and `stop`."""
        self.unmount()
        self.stop()
        if self._root.exists():
            shutil.rmtree(self._root)
        remove_if_empty(self._root.parent)


def _is_mounted(point: Path) -> bool:
    found = [mount for mount in mounts.current() if mount.point == point]
    return bool(found) and found[-1].file_system == FILE_SYSTEM
