"""What the kernel tells of the block device below a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from wattio.files.small import text_or_empty
from wattio.systems import mounts

SECTOR_BYTES = 512
"""Unit of a device's size in sysfs, whatever its own sectors are."""


def describe(folder: Path, sys_root: Path = Path("/sys")) -> dict[str, Any]:
    """File system, mount options and device of a folder; what is not known is left out.

    Where the kernel lists no mount that holds the folder, as in a chroot, `unknown` says so.
    `raw_capacity_bytes` is the size of the whole disk, or of the file system where there is no
    disk below it, such as a folder in memory.
    """
    facts: dict[str, Any] = {}
    mount = mounts.holding(folder.resolve(), mounts.current())
    if mount is None:
        facts["unknown"] = f"file system and mount options: {mounts.UNLISTED}"
        number = folder.stat().st_dev
        if disk := whole_disk(f"{os.major(number)}:{os.minor(number)}", sys_root):
            facts |= disk_facts(disk)
    else:
        facts |= {
            "file_system": mount.file_system,
            "mount_point": str(mount.point),
            "mount_options": list(mount.options),
            "mount_source": mount.source,
        }
        if disk := whole_disk(mount.device, sys_root):
            facts |= disk_facts(disk)
    if "raw_capacity_bytes" not in facts:
        space = os.statvfs(folder)
        facts["raw_capacity_bytes"] = space.f_blocks * space.f_frsize
    return facts


def whole_disk(number: str, sys_root: Path = Path("/sys")) -> Path | None:
    """The folder in sysfs of the disk that holds a device `8:1`; None if there is none."""
    folder = sys_root / "dev" / "block" / number
    if not folder.exists():
        return None
    folder = folder.resolve()
    return folder.parent if (folder / "partition").exists() else folder


def disk_facts(disk: Path) -> dict[str, Any]:
    """Name, model, scheduler, kind and size of a disk; what cannot be read is left out."""
    facts: dict[str, Any] = {"device": disk.name}
    if model := text_or_empty(disk / "device" / "model"):
        facts["model"] = model
    if scheduler := chosen(text_or_empty(disk / "queue" / "scheduler")):
        facts["scheduler"] = scheduler
    if (rotational := text_or_empty(disk / "queue" / "rotational")) in ("0", "1"):
        facts["rotational"] = rotational == "1"
    sectors = text_or_empty(disk / "size")
    if sectors.isascii() and sectors.isdigit():
        facts["raw_capacity_bytes"] = int(sectors) * SECTOR_BYTES
    if backing := text_or_empty(disk / "loop" / "backing_file"):
        facts["backing_file"] = backing
    return facts


def loops_below(folder: Path, sys_root: Path = Path("/sys")) -> list[str]:
    """Loop devices (`/dev/loop0`) whose file lies below a folder, or lay there until removed."""
    found = []
    for backing in sorted((sys_root / "block").glob("loop*/loop/backing_file")):
        file = text_or_empty(backing).removesuffix(" (deleted)")
        if file and Path(file).is_relative_to(folder):
            found.append(f"/dev/{backing.parent.parent.name}")
    return found


def chosen(schedulers: str) -> str | None:
    """The scheduler in use of a list such as `[none] mq-deadline`; None if none is marked."""
    found = re.search(r"\[([^\[\]]+)\]", schedulers)
    return found[1] if found else None
