"""Whether what a study writes has room where it is written, told before anything is begun."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wattio.errors import InputError
from wattio.kinds.measurement.plan import MeasurementPlan
from wattio.kinds.measurement.schema import SystemEntry
from wattio.workloads.workload import TakesSpace


@dataclass(frozen=True)
class Shortage:
    """A workload for whose files, or a system for whose disk, there is no room."""

    table: Literal["workload", "system"]
    index: int
    """Of the workload or system in the study, from 0."""

    name: str
    text: str


def shortages(plan: MeasurementPlan, scratch: Path | None = None) -> Iterator[Shortage]:
    """Systems, and workloads on those that are folders or made in one, without room for them.

    Where nobody has said which folder (`scratch`), what the file system of this one could hold at
    most is the limit; devices and networks tell theirs as they are brought up.
    """
    for index, system in enumerate(plan.study.system):
        made = _made(system)
        here = _existing(scratch or Path.cwd())
        total = shutil.disk_usage(here).total
        if made > total:
            words = f"size: {_told(made)}, but the file system of {here} has only {_told(total)}"
            yield Shortage("system", index, system.name, words)
    for index, entry in enumerate(plan.study.workload):
        work = plan.work(entry)
        if not isinstance(work, TakesSpace):
            continue
        clients = entry.clients or plan.study.study.clients
        needed = max(map(work.bytes_needed, clients))
        for system in plan.study.system:
            room = _room(system, scratch)
            if room is not None and needed > room[0]:
                words = f"needs {_told(needed)} for its files, but {room[1]}"
                yield Shortage("workload", index, entry.name, words)
                break


def _made(system: SystemEntry) -> int:
    """Bytes of the disk that is made for a system; 0 where none is, or one that grows."""
    if system.module == "local" and "device" not in system.options:
        return system_size(system)
    if system.module != "nbd":
        return 0
    from wattio.systems.nbd import Options
    from wattio.systems.nbd_servers import SERVERS

    options = Options.model_validate(system.options)
    form = options.form or SERVERS[options.server].forms[0]
    return int(options.size) if form in ("raw", "volume") else 0


def _room(system: SystemEntry, scratch: Path | None) -> tuple[int, str] | None:
    """Bytes that a system can take at most, and that in words; None if it cannot be told."""
    options = system.options
    if system.module != "local" or "device" in options:
        return None
    if "size" in options:
        size = system_size(system)
        return size, f"system {system.name} has only {_told(size)}"
    folder = Path(str(options["path"])) if "path" in options else scratch
    here = _existing(folder or Path.cwd())
    usage = shutil.disk_usage(here)
    if folder is None:
        return usage.total, f"the file system of {here} has only {_told(usage.total)}"
    return usage.free, f"{here} has only {_told(usage.free)} free"


def system_size(system: SystemEntry) -> int:
    """The size that an image is made with."""
    from wattio.systems.local import Options

    return int(Options.model_validate(system.options).size or 0)


def refuse_no_room(option: str, folder: Path, needed: float) -> None:
    """Refuse files for which there is no room in a folder, or where it will be made. InputError."""
    here = _existing(folder)
    free = shutil.disk_usage(here).free
    if needed > free:
        raise InputError(
            f"{option}: {_told(needed)} will be written, but {here} has only {_told(free)} free"
        )


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    found = Path(os.path.abspath(folder))  # noqa: PTH100 (links are followed by the system)
    while not found.is_dir():
        found = found.parent
    return found


def _told(count: float) -> str:
    for power, unit in ((40, "TiB"), (30, "GiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count / (1 << 20):.4g} MiB"
