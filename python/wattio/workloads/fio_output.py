"""What fio prints with `--output-format=json` or `json+`, read and summed over jobs and clients.

Text may stand before the JSON, `--status-interval` prints one cumulative object after another, and
a client of remote servers prints `client_stats` with a sum of its own that is left out here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from wattio.errors import ResultError
from wattio.workloads.fio_latency import Latency, latency_us, read_latency
from wattio.workloads.tolerant_json import count, entries, objects, table, text
from wattio.workloads.workload import Operation

DIRECTIONS = ("read", "write", "trim")
OVERLAP_LEAST = 0.9
"""Share of the whole that clients must have in common, else the result is doubtful."""

SHORT_MS = 10_000
"""A job shorter than this is doubtful where its window is known to 0.1 s only."""

_MIB = 1 << 20
_NS_OF_MS = 1_000_000
_SUM_OF_CLIENTS = "All clients"


@dataclass(frozen=True)
class DirectionTotals:
    """What a job did in one direction."""

    bytes: int
    operations: int
    runtime_ms: int
    latency: Latency


@dataclass(frozen=True)
class Job:
    """A job, or a group of them where the job file asked for group reporting."""

    name: str
    group: int
    error: int
    start_ms: int | None
    moved: Mapping[str, DirectionTotals]

    @property
    def runtime_ms(self) -> int:
        """How long it ran. fio's `job_runtime` is a sum over threads in a group report."""
        return max((one.runtime_ms for one in self.moved.values()), default=0)


@dataclass(frozen=True)
class Output:
    """One output of fio: its version, when it was written (ms since 1970), its jobs."""

    version: str
    written_ms: int | None
    jobs: tuple[Job, ...]

    def failure(self) -> str | None:
        """Which job failed, and why; None if all went well."""
        for job in self.jobs:
            if job.error:
                return f'job "{job.name}" ended with error {job.error} ({_errno(job.error)})'
        return None

    def earlier(self, by_ms: int) -> Output:
        """The same by a wall clock that is so much behind the one that it was written by."""

        def moved(at_ms: int | None) -> int | None:
            return None if at_ms is None else at_ms - by_ms

        jobs = tuple(replace(job, start_ms=moved(job.start_ms)) for job in self.jobs)
        return replace(self, written_ms=moved(self.written_ms), jobs=jobs)


@dataclass(frozen=True)
class Window:
    """What the jobs of all clients have in common; nanoseconds since 1970, UTC.

    Where they ran `apart` it is all of the time, from the first start to the last end.
    """

    start_utc_ns: int
    end_utc_ns: int
    doubts: tuple[str, ...]
    apart: bool = False


def parse(output: str) -> Output:
    """Read an output; of several the last, which is the sum. Raises ResultError where none is."""
    found = [one for one in objects(output) if "jobs" in one or "client_stats" in one]
    if not found:
        raise ResultError("holds no output of fio in JSON; run fio with --output-format=json+")
    last = found[-1]
    jobs = entries(last.get("jobs")) or entries(last.get("client_stats"))
    return Output(
        text(last.get("fio version"), "fio"),
        _stamp_ms(last.get("timestamp_ms")),
        tuple(_job(one) for one in map(table, jobs) if one.get("jobname") != _SUM_OF_CLIENTS),
    )


def operations(outputs: Sequence[Output], phase: str | None = None) -> list[Operation]:
    """What all clients did together, group by group and direction by direction.

    Bytes and operations are summed; seconds are the longest run, as fio has it for a group.
    Percentiles come from the summed histograms (`json+`). A group is named by `phase`, or by its
    first job.
    """
    jobs = sorted(
        (job for output in outputs for job in output.jobs if job.moved), key=lambda job: job.group
    )
    done: list[Operation] = []
    for number_of_group, members in groupby(jobs, key=lambda job: job.group):
        group = list(members)
        window = window_of(outputs, number_of_group)
        for direction in DIRECTIONS:
            moved = [job.moved[direction] for job in group if direction in job.moved]
            if moved:
                done.append(_operation(direction, phase or group[0].name, moved, window))
    return done


def window_of(outputs: Sequence[Output], group: int | None = None) -> Window | None:
    """When the jobs of a group ran in all clients: latest start to earliest end.

    A job's window is `job_start` and its run time (fio sets `job_start` again when a ramp ends).
    Older versions do not tell it; the end of the output is then the end of the longest job, all
    jobs are taken to have begun together, and of several groups nothing is known.
    """
    spans: list[tuple[int, int]] = []
    told = True
    for output in outputs:
        known = {job.group for job in output.jobs if job.moved}
        jobs = [job for job in output.jobs if job.moved and group in (None, job.group)]
        longest_ms = max((job.runtime_ms for job in jobs), default=0)
        for job in jobs:
            start_ms = job.start_ms
            if start_ms is None and output.written_ms is not None and len(known) == 1:
                start_ms, told = output.written_ms - longest_ms, False
            if start_ms is None:
                return None
            spans.append((start_ms, start_ms + job.runtime_ms))
    return _common(spans, told) if spans else None


def _common(spans: Sequence[tuple[int, int]], told: bool) -> Window:
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    start, end = max(start for start, _ in spans), min(end for _, end in spans)
    doubts = []
    whole_ms = last - first
    if whole_ms > 0 and (end - start) / whole_ms < OVERLAP_LEAST:
        share = max(0.0, (end - start) / whole_ms)
        doubts.append(
            f"jobs or clients ran together for only {100 * share:.0f} % of the time"
            f" ({100 * OVERLAP_LEAST:.0f} % wanted)"
        )
    if apart := end <= start:
        start, end = first, last
    if not told and whole_ms < SHORT_MS:
        doubts.append(
            "this version of fio does not say when a job began: the window is known only to 0.1 s,"
            " which matters for a job this short"
        )
    return Window(start * _NS_OF_MS, end * _NS_OF_MS, tuple(doubts), apart)


def _operation(
    direction: str, phase: str, moved: Sequence[DirectionTotals], window: Window | None
) -> Operation:
    seconds = max(one.runtime_ms for one in moved) / 1e3
    if window is not None and window.apart:
        seconds = max(seconds, (window.end_utc_ns - window.start_utc_ns) / 1e9)
    total = sum(one.bytes for one in moved)
    operations = sum(one.operations for one in moved)
    latency, doubts = latency_us([one.latency for one in moved])
    return Operation(
        operation=direction,
        phase=phase,
        seconds=seconds or None,
        bytes=total,
        operations=operations,
        throughput_mib_s=total / _MIB / seconds if seconds else None,
        iops=operations / seconds if seconds else None,
        latency_us=latency,
        start_utc_ns=window.start_utc_ns if window else None,
        end_utc_ns=window.end_utc_ns if window else None,
        doubts=(*(window.doubts if window else ()), *doubts),
    )


def _job(told: Mapping[str, Any]) -> Job:
    moved = {}
    for direction in DIRECTIONS:
        part = table(told.get(direction))
        operations, size = count(part.get("total_ios")), count(part.get("io_bytes"))
        if not operations or size is None:
            continue
        runtime_ms = count(part.get("runtime")) or 0
        moved[direction] = DirectionTotals(size, operations, runtime_ms, read_latency(part))
    return Job(
        name=text(told.get("jobname"), "job"),
        group=count(told.get("groupid")) or 0,
        error=count(told.get("error")) or 0,
        start_ms=_stamp_ms(told.get("job_start")),
        moved=moved,
    )


def _stamp_ms(told: object) -> int | None:
    """Milliseconds since 1970; None for 0 (never), and beyond what fits in nanoseconds."""
    found = count(told)
    return found if found and found * _NS_OF_MS < 1 << 63 else None


def _errno(code: int) -> str:
    try:
        return os.strerror(code)
    except (OverflowError, ValueError):
        return "unknown"
