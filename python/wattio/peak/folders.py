"""Folders that are measured: checked before, with a folder of our own that is removed after."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from wattio.errors import InputError, WorkloadFailed
from wattio.peak import fio, hosts
from wattio.peak.hosts import Host
from wattio.peak.programs import Programs

_NO_DISK = ("tmpfs", "ramfs", "overlayfs")
_STAT = re.compile(r"^(\S+) (\d+) (\d+)$", re.ASCII)


@dataclass(frozen=True)
class Folder:
    """A folder on a host."""

    host: Host
    path: str

    def __str__(self) -> str:
        """As it was given."""
        return self.path if self.host.name == hosts.LOCAL else f"{self.host.name}:{self.path}"


@dataclass(frozen=True)
class Facts:
    """What holds a folder: the file system's type, its free bytes, the device's number."""

    kind: str
    free_bytes: int
    device: str


def parse(text: str) -> Folder:
    """A folder from `/path` or `HOST:/path`. Raises InputError for what is neither."""
    host, separator, path = text.partition(":/")
    if separator and not host.startswith("/"):
        return Folder(hosts.parse(host), f"/{path}")
    return Folder(Host(), os.path.abspath(text))  # noqa: PTH100 (a name, of whatever host)


def facts(folder: Folder, programs: Programs) -> Facts:
    """What holds a folder. Raises InputError where there is no such folder."""
    try:
        # It prints nothing, and ends with 1, where there is nothing to look at.
        words = ("stat", "-c", "%F:%d", "--", folder.path)
        device = programs.say(folder.host, words, success=(0, 1)).strip()
        if not device:
            raise InputError(f"{folder}: there is no such folder, or it cannot be looked into")
        told = programs.say(folder.host, ("stat", "-f", "-c", "%T %a %S", "--", folder.path))
    except WorkloadFailed as error:
        raise InputError(f"{folder}: {error}") from None
    kind, _, number = device.rpartition(":")
    if kind != "directory":
        raise InputError(f"{folder}: is not a folder; raw devices are never written to")
    parsed = _STAT.match(told.strip())
    if parsed is None:
        raise InputError(f"{folder}: stat does not show its file system")
    return Facts(parsed[1], int(parsed[2]) * int(parsed[3]), number)


def check_memory(folder: Folder, programs: Programs) -> None:
    """Raise InputError for a folder that is not in memory, or without room."""
    found = facts(folder, programs)
    if found.kind != "tmpfs":
        raise InputError(f"{folder}: is on {found.kind}; memory is measured on tmpfs (/dev/shm)")
    _need(folder, fio.MEMORY_BYTES, found.free_bytes)


def check_disks(folders: Sequence[Folder], size_bytes: int, programs: Programs) -> None:
    """Raise InputError for a folder that is on no disk, without room, or on another's device."""
    seen: dict[str, Folder] = {}
    for folder in folders:
        found = facts(folder, programs)
        if found.kind in _NO_DISK:
            raise InputError(f"{folder}: is on {found.kind}, not on a disk")
        if found.device in seen:
            raise InputError(
                f"{folder}: is on the same device as {seen[found.device]}; it would count twice"
            )
        seen[found.device] = folder
        _need(folder, size_bytes, found.free_bytes)


def _need(folder: Folder, needed_bytes: int, free_bytes: int) -> None:
    if free_bytes < needed_bytes:
        raise InputError(
            f"{folder}: has {free_bytes / fio.GIB:.1f} GiB free, {needed_bytes / fio.GIB:.1f} GiB"
            " are needed"
        )


@contextmanager
def made(folder: Folder, programs: Programs) -> Iterator[str]:
    """A new folder of our own in it; removed with all in it, also when the work is stopped.

    Raises InputError where it cannot be made.
    """
    template = f"{folder.path.rstrip('/')}/wattio-peak.XXXXXXXX"
    try:
        path = programs.say(folder.host, ("mktemp", "-d", "--", template)).strip()
    except WorkloadFailed as error:
        raise InputError(f"{folder}: {error}") from None
    try:
        yield path
    finally:
        with contextlib.suppress(WorkloadFailed):
            programs.say(folder.host, ("rm", "-rf", "--", path), even_cancelled=True)
