"""A local file system: a folder that is there, or a device that is formatted and mounted.

    [[system]]
    name = "local"
    options = { path = "/data" }                            # a folder on what is to be measured
    # options = { device = "/dev/sdb", fs = "xfs" }         # formatted: all on it is lost
    # options = { device = "/data/image", size = "8 GiB", fs = "ext4", mount_options = ["noatime"] }

Without options it is a folder of the scratch folder's own file system. All clients work in one and
the same folder. A folder on a file system that others have mounted is measured in the same way.

Where clients are on hosts, all of them work on the first one, in a folder of `path` or /var/tmp.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from wattio.errors import HostError, SystemFailed
from wattio.files.document import Strict
from wattio.files.quantity import Size
from wattio.hosts.hosts import Hosts
from wattio.systems import devices, mounted, mounts
from wattio.systems.commands import answer, call, need, remove_if_empty
from wattio.systems.system import System
from wattio.workloads.workload import Place

_ON_HOSTS = "/var/tmp"  # noqa: S108 (a folder of our own in it)

LABEL = "wattio"
"""Label of the file systems that are made here; a device that bears it may be formatted again."""

_MIB = 1 << 20
_LEAST_BYTES = {"ext4": 16 * _MIB, "xfs": 300 * _MIB}


class Options(Strict):
    """A folder (`path`), or a block device or image file (`device`, `size`) to format."""

    path: str | None = None  # a folder, used as it is
    # A block device or an image file, which is formatted: all on it is lost.
    device: str | None = None
    size: Size | None = None  # of an image file that is made
    # What a device is formatted with; for a folder: what it has to be on.
    fs: Literal["ext4", "xfs"] | None = None
    mount_options: list[str] = Field(default_factory=list)  # of a device or an image
    # Format a device although it holds something that was not made here.
    overwrite: bool = False

    @model_validator(mode="after")
    def _agree(self) -> Options:
        made = [key for key in ("device", "size") if getattr(self, key) is not None]
        if self.path is not None and made:
            raise ValueError(f"give either path or {made[0]}: a folder is used as it is")
        if not made and (self.mount_options or self.overwrite):
            raise ValueError("mount_options and overwrite are for a device or an image of a size")
        for key in ("path", "device"):
            value = getattr(self, key)
            if value is not None and not Path(value).is_absolute():
                raise ValueError(f'{key} "{value}" must be absolute, as in "/data"')
        least = _LEAST_BYTES[self.fs or "ext4"]
        if self.size is not None and self.size < least:
            raise ValueError(f"size: {self.fs or 'ext4'} needs at least {least // _MIB} MiB")
        return self

    @property
    def formats(self) -> bool:
        """Whether a device or image is formatted, or a folder is used as it is."""
        return self.device is not None or self.size is not None


class Storage:
    """A folder, or a file system of its own that is mounted below the scratch folder."""

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        self._options = options
        self._fs = options.fs or "ext4"
        self._scratch = scratch.resolve()
        self._point = self._scratch / "mount"
        self._device = Path(options.device or self._scratch / "image")
        # Folders of others hold a part of their own for each scratch folder: two runs do not meet.
        mark = hashlib.sha256(str(self._scratch).encode()).hexdigest()[:8]
        base = self._point if options.formats else Path(options.path or self._scratch)
        self._work = base / f"wattio-work-{mark}"
        self._made = False

    @property
    def _block(self) -> bool:
        """Whether the device is a block device, not an image file that is made."""
        try:
            return stat.S_ISBLK(self._device.stat().st_mode)
        except OSError:
            return False

    def take(self, hosts: Hosts, clients: Sequence[str], servers: Sequence[str]) -> System:
        """All clients work on the first host. Raises HostError for a device to be formatted."""
        if self._options.formats:
            raise HostError(
                "devices are formatted only on this machine, but clients are on hosts; mount one"
                " there, and name its folder: path"
            )
        folder = self._options.path or _ON_HOSTS
        there = mounted.Options(path=folder, fs=self._options.fs, shared=False)
        return mounted.Storage(there, self._scratch).take(hosts, clients[:1], ())

    def probe(self) -> None:
        """Raise HostError where the folder, the device, a program or root's rights are missing."""
        path = self._options.path
        if not self._options.formats:
            if path is not None and not Path(path).is_dir():
                raise HostError(f"{path}: is not a folder; create it or mount it")
            return
        if os.geteuid() != 0:
            raise HostError("formatting and mounting a device needs root; or name a folder (path)")
        package = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}[self._fs]
        need({f"mkfs.{self._fs}": package, "losetup": "mount", "wipefs": "util-linux"})
        self._check_device(before=True)

    def _check_device(self, before: bool) -> None:
        """Raise HostError where the device is none, or not free; `before` anything is removed.

        Before that, what a dead run of ours has mounted is not in the way.
        """
        device = self._device
        if not self._block:
            if device.is_relative_to("/dev"):
                raise HostError(f"{device}: is not a block device of this machine")
            if self._options.size is None:
                raise HostError(f"{device}: is not a block device; an image file needs a size")
            if device.exists() and not device.is_file():
                raise HostError(f"{device}: is neither a block device nor a file")
        if not device.exists():
            return
        held = self._held()
        users = [mount.point for mount in mounts.current() if self._is_on(mount)]
        if users and (held or not before):
            raise HostError(f"{device}: is mounted on {users[0]}; unmount it first")
        if held and not self._options.overwrite:
            raise HostError(
                f"{device}: holds {held}, which would be lost; set overwrite to allow that"
            )

    def _is_on(self, mount: mounts.Mount) -> bool:
        if not self._block:
            return mount.source in self._loops()
        disk = self._device.resolve().name
        number = self._device.stat().st_rdev
        if mount.device == f"{os.major(number)}:{os.minor(number)}":
            return True
        whole = devices.whole_disk(mount.device)
        return whole is not None and whole.name == disk

    def _held(self) -> str | None:
        """What is on the device, where it is something that was not made here."""
        try:
            signatures = self._signatures()
        except SystemFailed as error:
            raise HostError(str(error)) from error
        foreign = [words[0] for words in signatures if words[1:] != [LABEL]]
        if foreign:
            return foreign[0]
        empty = self._block or bool(signatures) or self._device.stat().st_size == 0
        return None if empty else "data"

    def _signatures(self) -> list[list[str]]:
        """Type and label of everything that is known on the device. Raises SystemFailed."""
        device = str(self._device)
        found = call(device, "wipefs", "--no-act", "--noheadings", "-O", "TYPE,LABEL", device)
        return [line.split() for line in found.splitlines() if line.strip()]

    def _is_ours(self) -> bool:
        """Whether the image was made here, now or as its label tells. Raises SystemFailed.

        One that was refused, as it holds something else, is left alone with its loop devices.
        """
        if self._made or not self._device.is_file():
            return self._made
        signatures = self._signatures()
        return bool(signatures) and all(words[1:] == [LABEL] for words in signatures)

    def deploy(self) -> None:
        """Make the image and format the device; what a dead run left is taken away first."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        if not self._options.formats:
            shutil.rmtree(self._work, ignore_errors=True)
            return
        self.unmount()
        self._check_device(before=False)
        if self._block:
            self._format(self._device)
            return
        # An image appears when it is complete, so that what a kill leaves is never taken for data.
        partial = self._device.with_name(self._device.name + ".wattio-partial")
        self._make_image(partial)
        self._format(partial)
        partial.replace(self._device)
        self._made = True

    def _format(self, target: Path) -> None:
        force = "-F" if self._fs == "ext4" else "-f"
        call("formatting", f"mkfs.{self._fs}", "-q", force, "-L", LABEL, str(target))

    def _make_image(self, target: Path) -> None:
        assert self._options.size is not None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as image:
                image.truncate(int(self._options.size))
        except OSError as error:
            raise SystemFailed(f"{target}: cannot be created: {error.strerror}") from error

    def start(self) -> None:
        """Nothing runs."""

    def mount(self, clients: int) -> Sequence[Place]:
        """Mount the device, if there is one; all clients work in one folder."""
        if self._options.formats and not self._mounted():
            self._point.mkdir(parents=True, exist_ok=True)
            source = str(self._device if self._block else self._loop())
            options = ",".join(["rw", *self._options.mount_options])
            call("mounting", "mount", "-t", self._fs, "-o", options, source, str(self._point))
        try:
            self._work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SystemFailed(f"{self._work}: cannot be created: {error.strerror}") from error
        return [Place(self._work)] * clients

    def _mounted(self) -> bool:
        return any(mount.point == self._point for mount in mounts.current())

    def _loops(self) -> list[str]:
        found = answer("losetup", "--associated", str(self._device), "--noheadings", "-O", "NAME")
        return (found or "").split()

    def _loop(self) -> str:
        """A loop device of the image, past the page cache of the file system below if it can."""
        if loops := self._loops():
            return loops[0]
        show = ("losetup", "--find", "--show")
        direct = answer(*show, "--direct-io=on", str(self._device))
        return direct or call("loop device", *show, str(self._device)).strip()

    def verify_mount(self) -> None:
        """Raise SystemFailed where the work folder is not on the file system that was asked for."""
        if not self._work.is_dir():
            raise SystemFailed(f"{self._work}: not found")
        mount = mounts.holding(self._work, mounts.current())
        if mount is None:
            # In a chroot the root may have no entry. A folder is measured all the same; what it
            # lies on is told as not known.
            if self._options.formats or self._options.fs is not None:
                raise SystemFailed(f"{self._work}: its file system is not known: {mounts.UNLISTED}")
            self._verify_space()
            return
        if self._options.formats and mount.point != self._point:
            raise SystemFailed(f"{self._point}: nothing is mounted there")
        if self._options.fs is not None and mount.file_system != self._options.fs:
            raise SystemFailed(
                f"{self._work}: is on {mount.file_system}, not on {self._options.fs}"
            )
        self._verify_space()

    def _verify_space(self) -> None:
        if os.statvfs(self._work).f_bavail == 0:
            raise SystemFailed(f"{self._work}: has no space left")

    def describe(self) -> dict[str, Any]:
        """File system, mount options, device, scheduler, free space."""
        space = os.statvfs(self._work)
        free_bytes = space.f_bavail * space.f_frsize
        return {**devices.describe(self._work), "free_bytes": free_bytes}

    def processes(self) -> list[int]:
        """None: the kernel serves it."""
        return []

    def unmount(self) -> None:
        """Take the mount and the loop device away, also those of a run that died."""
        if not self._options.formats:
            return
        mounts.take_away(self._point)
        if not self._block and self._is_ours():
            for loop in self._loops():
                call("loop device", "losetup", "--detach", loop)

    def stop(self) -> None:
        """Nothing runs."""

    def clean(self) -> None:
        """Remove the work folder, or an image of ours; a block device keeps its file system."""
        self.unmount()
        if not self._options.formats:
            shutil.rmtree(self._work, ignore_errors=True)
        elif not self._block and self._is_ours():
            self._device.unlink(missing_ok=True)
            self._made = False
        for folder in (self._point, self._scratch):
            remove_if_empty(folder)
