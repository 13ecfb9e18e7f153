"""The sweep: the target is started on a volume of its own, asked, and taken away.

Twice: as it is set, and without memory for blocks and writes, for what its device takes. What
clients reach at all is found by fio at depth 32, and each load is a share of that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from wattio.calibration.target import governed
from wattio.calibration.target.design import LARGE, READ_SHARE, SMALL, Design, Load
from wattio.calibration.target.folder import DataFolder, Record
from wattio.calibration.target.points import DURABLE, MIX, READ, WRITE, Point
from wattio.calibration.target.quiet_windows import measure_quietly
from wattio.calibration.target.threads import Threads
from wattio.errors import WorkloadFailed
from wattio.systems.nbd import Options, Storage
from wattio.workloads import fio
from wattio.workloads.nbd_load import OpenLoad
from wattio.workloads.workload import Context, Place

DEPTH = 32
_SATURATION_S = 2.0


@dataclass(frozen=True)
class Settings:
    """How the target is set; sizes in bytes. `program` is its file, `path` a folder on its disk."""

    program: str | None
    path: Path | None
    reactors: int
    cache_bytes: int
    write_buffer_bytes: int
    size_bytes: int

    def storage(
        self, scratch: Path, *, of_device: bool, law: Mapping[str, object] | None = None
    ) -> Storage:
        """The server, as set or without memory; with further settings where a law governs it."""
        cache, buffer = (0, 0) if of_device else (self.cache_bytes, self.write_buffer_bytes)
        settings: dict[str, object] = {
            "reactors": self.reactors,
            "idle": "block",
            "memory.cache": f"{cache} B",
            "memory.write_buffer": f"{buffer} B",
            **(law or {}),
        }
        options: dict[str, object] = {
            "server": "wattio-target",
            "size": f"{self.size_bytes} B",
            "settings": settings,
        }
        if self.program is not None:
            options["program"] = self.program
        if self.path is not None:
            options["path"] = str(self.path.resolve())
        return Storage(Options.model_validate(options), scratch)

    def region(self, *, of_device: bool) -> int:
        """The part of the volume that is asked for: from memory, what surely fits there."""
        return self.size_bytes if of_device else min(self.size_bytes, self.cache_bytes // 2)


class Progress(Protocol):
    """Told how the sweep goes."""

    def doing(self, what: str) -> None:
        """Something that is no point."""

    def ended(self, load: Load, point: Point) -> None:
        """A load was measured."""


def sweep(
    settings: Settings,
    design: Design,
    data: DataFolder,
    record: Record,
    progress: Progress,
    cancelled: threading.Event,
) -> Record:
    """Measure everything into a folder; the record with what was learned.

    Raises HostError, SystemFailed, WorkloadFailed, Cancelled.
    """
    for of_device in (False, True):
        storage = settings.storage(data.scratch, of_device=of_device)
        storage.probe()
        progress.doing("starts the target" + (" without memory" if of_device else ""))
        raw = data.scratch / ("fio-device" if of_device else "fio")
        region = settings.region(of_device=of_device)
        with _served(storage, settings.size_bytes, raw, region, cancelled) as asking:
            facts = storage.describe()
            rates = {
                f"{kind} {size}": asking.saturation(kind, size, progress)
                for kind, size in design.saturated()
                if Load(kind, size, 1.0).of_device == of_device
            }
            learned = {
                "version": facts.get("version"),
                "device": f"{facts.get('mount_source', '?')} ({facts.get('file_system', '?')})",
                "saturated_per_s": record.saturated_per_s | rates,
            }
            record = record.model_copy(update=learned)
            data.keep(record)
            threads = Threads(storage.processes()[0])
            number = len(data.points())
            for load, asked in _asked(settings, design, rates, of_device=of_device):
                found = measure_quietly(asking.uri, threads, load.kind, number, asked, cancelled)
                found = replace(found, held_out=int(load.held_out))
                data.add(found)
                progress.ended(load, found)
                number += 1
    for law in governed.LAWS if design.governed_s else ():
        record = _under_law(law, settings, design, data, record, progress, cancelled)
    return record


def _under_law(
    law: str,
    settings: Settings,
    design: Design,
    data: DataFolder,
    record: Record,
    progress: Progress,
    cancelled: threading.Event,
) -> Record:
    """Ask the loads of a target that a law governs."""
    keys: dict[str, object] = {"idle": design.governed_idle, "policy.name": law}
    keys |= {f"policy.settings.{key}": value for key, value in governed.LAWS[law].items()}
    rate = record.saturated_per_s[f"{READ} {SMALL}"]
    for share in governed.SHARES:
        # A law remembers: each load finds one that has seen nothing.
        storage = settings.storage(data.scratch, of_device=False, law=keys)
        progress.doing(f"{law}: reads at {share:.0%} of saturation")
        raw, region = data.scratch / f"fio-{law}-{share:g}", settings.region(of_device=False)
        with _served(storage, settings.size_bytes, raw, region, cancelled) as asking:
            asking.warm(READ)
            threads = Threads(storage.processes()[0])
            asked = OpenLoad(
                rate_per_s=share * rate,
                requests=max(round(share * rate * design.governed_s), 20),
                size_bytes=SMALL,
                read_share=1.0,
                region_bytes=region,
                connections=settings.reactors,
                seed=design.seed,
            )
            of = (law, design.governed_idle)
            found = governed.measure(asking.uri, storage.status, threads, of, asked, cancelled)
        record = record.model_copy(update={"governed": [*record.governed, found]})
        data.keep(record)
    return record


def _asked(
    settings: Settings, design: Design, rates: Mapping[str, float], *, of_device: bool
) -> Iterator[tuple[Load, OpenLoad]]:
    """What is asked of one of the two servers, one after the other."""
    for repetition, loads in enumerate(design.loads(of_device)):
        for load in loads:
            rate = load.share * rates[f"{load.kind} {load.size_bytes}"]
            yield (
                load,
                OpenLoad(
                    rate_per_s=rate,
                    requests=design.requests(load, rate),
                    size_bytes=load.size_bytes,
                    read_share=READ_SHARE[load.kind],
                    region_bytes=settings.region(of_device=of_device),
                    connections=settings.reactors,
                    # What is held out has arrivals of its own.
                    seed=design.seed + 1000 * repetition + 500 * load.held_out,
                ),
            )


@contextmanager
def _served(
    storage: Storage, size_bytes: int, raw: Path, region_bytes: int, cancelled: threading.Event
) -> Iterator[_Asking]:
    """Fio's part at a server, its volume written in full; taken away however it ends."""
    try:
        storage.deploy()
        storage.start()
        asking = _Asking(storage.mount(1)[0], raw, region_bytes, cancelled)
        asking.fill(size_bytes)
        yield asking
    finally:
        storage.clean()


class _Asking:
    """fio's part: the volume is written in full, and asked for all that can be had."""

    def __init__(
        self, place: Place, raw: Path, region_bytes: int, cancelled: threading.Event
    ) -> None:
        self._place, self._raw, self._region_bytes = place, raw, region_bytes
        self._cancelled = cancelled

    @property
    def uri(self) -> str:
        """Where the server answers."""
        assert self._place.uri is not None
        return self._place.uri

    def fill(self, size_bytes: int) -> None:
        """Write the volume, so that nothing is read that was never written."""
        context = self._context("fill")
        self._work("fill", "randread", SMALL, size_bytes, 1.0).prepare(context)

    def saturation(self, kind: str, size_bytes: int, progress: Progress) -> float:
        """Requests a second at depth 32. Raises WorkloadFailed."""
        progress.doing(f"depth {DEPTH}: {kind} {size_bytes // 1024} KiB")
        if kind == MIX:
            pattern = "randrw"
        else:
            pattern = "randwrite" if kind in (WRITE, DURABLE) else "randread"
        if READ_SHARE[kind] > 0:
            self.warm(f"{kind}-{size_bytes}")
        context = self._context(f"{kind}-{size_bytes}")
        work = self._work("all", pattern, size_bytes, self._region_bytes, _SATURATION_S)
        work.run("all", context)
        found = sum(one.iops or 0.0 for one in fio.results(context.raw))
        if found <= 0:
            raise WorkloadFailed(f"fio: {kind} of {size_bytes} B moved no data")
        return found

    def warm(self, what: str) -> None:
        """Read all of it twice, so that what is to be in memory is there."""
        for name in ("warm-1", "warm-2"):
            context = self._context(f"{what}-{name}")
            self._work(name, "read", LARGE, self._region_bytes, None).run(name, context)

    def _context(self, name: str) -> Context:
        raw = self._raw / name
        raw.mkdir(parents=True)
        return Context((self._place,), raw, self._cancelled)

    def _work(
        self, name: str, pattern: str, block: int, size: int, runtime_s: float | None
    ) -> fio.Work:
        job: dict[str, object] = {
            "name": name,
            "rw": pattern,
            "bs": f"{block} B",
            "size": f"{size} B",
            "iodepth": DEPTH,
            "ioengine": fio.NBD,
        }
        if pattern == "randrw":
            job["options"] = {"rwmixread": round(100 * READ_SHARE[MIX])}
        if runtime_s is not None:
            job |= {"runtime": f"{runtime_s} s", "time_based": True}
        return fio.Work(fio.Options.model_validate({"jobs": [job]}), self._raw)
