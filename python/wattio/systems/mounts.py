"""What is mounted where, as the kernel tells it in /proc/self/mountinfo."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from wattio.errors import SystemFailed
from wattio.systems.commands import answer, call

MOUNTINFO = Path("/proc/self/mountinfo")

UNLISTED = f"{MOUNTINFO} lists no mount that holds the folder, as in a chroot"
"""Why the file system of a folder that is there cannot be told."""

_ESCAPED = re.compile(r"\\([0-7]{3})")
_NUMBER = re.compile(r"[0-9]+:[0-9]+")


@dataclass(frozen=True)
class Mount:
    """One mount: the folder, the file system's type, source and options, its device `8:1`."""

    point: Path
    file_system: str
    source: str
    options: tuple[str, ...]
    device: str


def parse(text: str) -> list[Mount]:
    """The mounts of a mountinfo text, in its order; lines that cannot be read are left out."""
    found = []
    for line in text.splitlines():
        front, _, back = line.partition(" - ")
        head, tail = front.split(), back.split()
        if len(head) < 6 or len(tail) < 2 or not _NUMBER.fullmatch(head[2]):
            continue
        options = dict.fromkeys([*head[5].split(","), *(tail[2] if tail[2:] else "").split(",")])
        options.pop("", None)
        found.append(
            Mount(Path(_plain(head[4])), tail[0], _plain(tail[1]), tuple(options), head[2])
        )
    return found


def current() -> list[Mount]:
    """What is mounted now, as this process sees it."""
    return parse(MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape"))


def holding(path: Path, mounts: list[Mount]) -> Mount | None:
    """The mount that a folder lies on: the deepest above it, of those at one place the last."""
    above = [mount for mount in mounts if path.is_relative_to(mount.point)]
    best: Mount | None = None
    for mount in above:
        if best is None or len(mount.point.parts) >= len(best.point.parts):
            best = mount
    return best


def below(folder: Path) -> list[Mount]:
    """What is mounted on a folder or below it, the last one first, as it has to be taken away."""
    return [mount for mount in reversed(current()) if mount.point.is_relative_to(folder)]


def take_away(folder: Path) -> None:
    """Unmount all that is mounted on a folder or below it, also where its server has died.

    What is in use is detached: it goes when its last user does. Raises SystemFailed.
    """
    for mount in below(folder):
        point = str(mount.point)
        if answer("umount", point) is None and any(m.point == mount.point for m in below(folder)):
            call(f"unmounting {point}", "umount", "--lazy", point)
    if left := below(folder):
        raise SystemFailed(f"{left[0].point} is still mounted")


def _plain(text: str) -> str:
    """A path as it is: the kernel writes spaces and the like as octal numbers."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
