"""fio on memory and on disks, with the parameters of the thesis's Appendix A.

What differs: disks are files in folders, laid out in full beforehand, not raw devices; jobs are
reported one by one and added up here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from wattio.analysis.efficiency import MIB
from wattio.analysis.peak import Quantity, Rate
from wattio.errors import WorkloadFailed
from wattio.peak.rates import together

KIB = 1024
GIB = 1024**3
MEMORY_BYTES = 2 * GIB
"""What the measurements of memory need: 4 x 256 MiB beside 8 x 128 MiB."""

FILE = "wattio-peak.data"

_FIO = ("fio", "--output-format=json", "--group_reporting=0", "--eta=never")
_SINGLE_BYTES = ("--size=128M", "--numjobs=8")
_TIMED = ("--time_based=1",)
_DIRECT = ("--direct=1", "--ioengine=libaio", "--iodepth=32", "--fallocate=none")


def memory_layout(folder: str) -> tuple[str, ...]:
    """Write the files of the 8 jobs of single bytes; fio by itself would, byte by byte."""
    return (*_FIO, "--rw=write", "--bs=4M", *_SINGLE_BYTES, *_memory(folder, "iops"))


def memory(folder: str, quantity: Quantity, runtime_s: int) -> tuple[str, ...]:
    """Figures A.1 and A.2, on tmpfs: 4 jobs of 4 MiB blocks, or 8 of single bytes at random."""
    random = quantity.measure == "iops"
    shape = ("--bs=1", *_SINGLE_BYTES) if random else (*_blocks("256M", jobs=4), "--unlink=1")
    return (
        *_FIO,
        *_TIMED,
        f"--runtime={runtime_s}",
        f"--rw={_pattern(quantity)}",
        *shape,
        *_memory(folder, quantity.measure),
    )


def layout(folders: Sequence[str], size_bytes: int) -> tuple[str, ...]:
    """Write each disk's file once in full.

    Blocks that were never written are read without touching the disk.
    """
    return (
        *_FIO,
        *_DIRECT,
        "--rw=write",
        "--bs=4M",
        f"--size={size_bytes}",
        "--end_fsync=1",
        *_disks(folders),
    )


def disks(
    folders: Sequence[str], quantity: Quantity, runtime_s: int, size_bytes: int
) -> tuple[str, ...]:
    """Figures A.3 and A.4: 4 MiB in order, or 4 KiB at random with 2 jobs, direct, depth 32.

    All disks at once, as jobs `disk0`, `disk1` and so on.
    """
    random = quantity.measure == "iops"
    size = min(size_bytes, GIB) if random else size_bytes
    shape = ("--bs=4k", f"--size={size}", "--numjobs=2") if random else _blocks(str(size), jobs=1)
    return (
        *_FIO,
        *_TIMED,
        f"--runtime={runtime_s}",
        *_DIRECT,
        f"--rw={_pattern(quantity)}",
        *shape,
        *_disks(folders),
    )


def rates(text: str, quantity: Quantity) -> dict[str, Rate]:
    """The rate of each job name in fio's JSON; jobs of one name ran at once and are added up.

    Deviations are those of fio's own samples (one in 0.5 s). Raises WorkloadFailed for what is no
    result: damaged, of a job that failed, or without data moved.
    """
    found: dict[str, list[Rate]] = {}
    for job in _jobs(text):
        name = job.get("jobname")
        side = job.get(quantity.direction)
        if not isinstance(name, str) or not isinstance(side, dict):
            raise WorkloadFailed("fio's result has a job without name or direction")
        if job.get("error"):
            raise WorkloadFailed(f"fio's job {name} failed with error {job['error']}")
        found.setdefault(name, []).append(_rate(side, quantity))
    if not found:
        raise WorkloadFailed("fio's result has no job")
    return {name: together(jobs) for name, jobs in found.items()}


def _rate(side: dict[str, Any], quantity: Quantity) -> Rate:
    if quantity.measure == "iops":
        mean, deviation, n = side.get("iops"), side.get("iops_stddev"), side.get("iops_samples")
        unit = 1.0
    else:
        mean, deviation, n = side.get("bw_bytes"), side.get("bw_dev"), side.get("bw_samples")
        unit = 1.0 / MIB
    value = _number(mean)
    if value is None or value <= 0:
        raise WorkloadFailed(f"fio moved no data ({quantity.direction})")
    samples = _number(n)
    spread = _number(deviation)
    if samples is None or samples < 2 or spread is None or spread < 0:
        return Rate(value * unit)
    # Deviations of throughput are in KiB/s, its mean in bytes per second.
    return Rate(value * unit, spread * (unit if unit == 1.0 else KIB / MIB), int(samples))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _jobs(text: str) -> list[dict[str, Any]]:
    """The jobs of a result; warnings may stand before and behind the JSON."""
    start = text.find("{")
    try:
        content, _ = json.JSONDecoder().raw_decode(text[max(start, 0) :])
    except (ValueError, RecursionError):
        raise WorkloadFailed("fio's output is not JSON") from None
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise WorkloadFailed("fio's result has no jobs")
    return jobs


def _blocks(size: str, jobs: int) -> tuple[str, ...]:
    return ("--bs=4M", f"--size={size}", f"--numjobs={jobs}")


def _memory(folder: str, name: str) -> tuple[str, ...]:
    return (f"--directory={_escaped(folder)}", f"--name={name}")


def _disks(folders: Sequence[str]) -> list[str]:
    return [
        word
        for place, folder in enumerate(folders)
        for word in (f"--name=disk{place}", f"--filename={_escaped(folder)}/{FILE}")
    ]


def _pattern(quantity: Quantity) -> str:
    return f"rand{quantity.direction}" if quantity.measure == "iops" else quantity.direction


def _escaped(path: str) -> str:
    """A path in which fio does not take a colon for a separator of files."""
    return path.replace("\\", "\\\\").replace(":", "\\:")
