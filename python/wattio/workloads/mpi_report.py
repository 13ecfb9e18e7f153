"""What the ranks of an MPI workload did: read from their report, and made into spans and results.

Ranks of one boot share its monotonic clock. Those of several hosts are put on this machine's where
the offsets of their clocks are known; else they are compared by their wall clocks, which the ranks
measured against each other before and after the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from wattio import clock
from wattio.clock import Instant, Span
from wattio.files.document import Strict
from wattio.hosts import clocks
from wattio.workloads import rank_report
from wattio.workloads.ranks import REPORT, VERSION
from wattio.workloads.workload import Operation

OFFSET_DOUBTFUL_S = 0.1
OFFSET_FAILED_S = 0.4
"""Offsets of clocks between hosts: wanted below the first, refused above the second."""

CACHE_RATE_PER_S = 1e6
"""More operations a second than this for each client come from the client's own cache."""

_MIB = 1 << 20
_NS_PER_S = 1e9


class Phase(Strict):
    """A phase as one rank saw it; latencies, in microseconds, are of all ranks."""

    name: str
    start_utc_ns: int
    start_monotonic_ns: int
    end_utc_ns: int
    end_monotonic_ns: int
    operations: int
    bytes: int
    latencies: dict[str, float] = Field(default_factory=dict)


class Rank(Strict):
    """One rank: where it ran, what went wrong, its phases."""

    rank: int
    client: int
    host: str
    boot: str
    memory_bytes: int
    memory_held_bytes: int
    errors: list[str]
    phases: list[Phase]


class Offset(Strict):
    """How far a rank's wall clock was ahead of the first rank's."""

    rank: int
    offset_s: float
    round_trip_s: float


class Report(Strict):
    """All ranks of a launch."""

    wattio_ranks: int = Field(ge=VERSION, le=VERSION)
    mpi: str
    clocks: dict[str, list[Offset]]
    ranks: list[Rank] = Field(min_length=1)
    facts: dict[str, Any] = Field(default_factory=dict)  # what the first rank tells besides

    @property
    def clients(self) -> int:
        """How many clients took part."""
        return len({rank.client for rank in self.ranks})

    @property
    def offset_s_max(self) -> float:
        """The largest offset of a clock, in either direction, before or after the work."""
        every = (abs(one.offset_s) for some in self.clocks.values() for one in some)
        return max(every, default=0.0)

    def errors(self) -> list[str]:
        """What went wrong, with the rank and its host."""
        return [
            f"rank {rank.rank} on {rank.host}: {error}"
            for rank in self.ranks
            for error in rank.errors
        ]


def parse(output: str) -> Report:
    """The report in a launch's standard output; other lines are passed over. Raises ResultError."""
    return rank_report.parse(Report, REPORT, output, "ranks")


def read(path: Path) -> Report:
    """The report in a file. Raises ResultError."""
    return rank_report.read(path, parse)


@dataclass(frozen=True)
class Window:
    """A phase of all ranks: from the latest that passed the barrier to the last that ended."""

    name: str
    parts: tuple[Phase, ...]
    one_boot: bool

    @property
    def start(self) -> Phase:
        """The part that began last."""
        return max(self.parts, key=self._started)

    @property
    def end(self) -> Phase:
        """The part that ended last."""
        return max(self.parts, key=self._ended)

    def _started(self, part: Phase) -> int:
        return part.start_monotonic_ns if self.one_boot else part.start_utc_ns

    def _ended(self, part: Phase) -> int:
        return part.end_monotonic_ns if self.one_boot else part.end_utc_ns

    @property
    def seconds(self) -> float:
        """How long it lasted; 0 where all of it lies within the ranks' start."""
        return max(0, self._ended(self.end) - self._started(self.start)) / _NS_PER_S

    def span(self, here: bool) -> Span:
        """On the clocks of this host; `here`: the ranks share them."""
        start, end = self.start, self.end
        if here:
            first = Instant(start.start_utc_ns, start.start_monotonic_ns)
            last = Instant(end.end_utc_ns, end.end_monotonic_ns)
        else:
            first, last = clock.at_utc(start.start_utc_ns), clock.at_utc(end.end_utc_ns)
        return Span(self.name, first, max(first, last))


def placed(report: Report, boot: str, known: Mapping[str, clocks.Offset]) -> Report:
    """The report by the clocks of this machine, whose boot is given, as if all ranks had run here.

    `known` are the offsets of other boots; where one lacks, the report is as it was.
    """
    if not all(rank.boot in (boot, *known) for rank in report.ranks):
        return report
    ranks = [
        rank if rank.boot == boot else _here(rank, boot, known[rank.boot]) for rank in report.ranks
    ]
    return report.model_copy(update={"ranks": ranks})


def _here(rank: Rank, boot: str, offset: clocks.Offset) -> Rank:
    def moved(part: Phase) -> Phase:
        start = offset.here(Instant(part.start_utc_ns, part.start_monotonic_ns))
        end = offset.here(Instant(part.end_utc_ns, part.end_monotonic_ns))
        times = {
            "start_utc_ns": start.utc_ns,
            "start_monotonic_ns": start.monotonic_ns,
            "end_utc_ns": end.utc_ns,
            "end_monotonic_ns": end.monotonic_ns,
        }
        return part.model_copy(update=times)

    return rank.model_copy(update={"boot": boot, "phases": [moved(part) for part in rank.phases]})


def windows(report: Report) -> list[Window]:
    """The phases that all ranks went through, in their order."""
    one_boot = len({rank.boot for rank in report.ranks}) == 1
    every = [rank.phases for rank in report.ranks]
    return [
        Window(parts[0].name, parts, one_boot)
        for parts in zip(*every, strict=False)
        if all(part.name == parts[0].name for part in parts)
    ]


def spans(report: Report, boot: str) -> list[Span]:
    """The phases on the clocks of this host, whose boot is given."""
    here = all(rank.boot == boot for rank in report.ranks)
    return [window.span(here) for window in windows(report)]


def operation(report: Report, window: Window, doubts: Sequence[str]) -> Operation:
    """The normalised result of a phase."""
    seconds = window.seconds
    moved = sum(part.bytes for part in window.parts)
    done = sum(part.operations for part in window.parts)
    rate = done / seconds if seconds > 0 else None
    found = [*doubts, *clock_doubts(report)]
    if rate is not None and rate / report.clients > CACHE_RATE_PER_S:
        found.append(
            f"{rate / report.clients:,.0f} operations a second of each client come from its cache"
        )
    latencies = next((part.latencies for part in window.parts if part.latencies), {})
    return Operation(
        operation=window.name,
        phase=window.name,
        seconds=seconds if seconds > 0 else None,
        bytes=moved or None,
        operations=done,
        throughput_mib_s=moved / _MIB / seconds if moved and seconds > 0 else None,
        iops=rate,
        latency_us=latencies,
        start_utc_ns=window.start.start_utc_ns,
        end_utc_ns=window.end.end_utc_ns,
        doubts=tuple(found),
    )


def shift_doubts(report: Report, task: Mapping[str, Any]) -> list[str]:
    """What is doubtful where clients look at what lies in the very cache that it came through."""
    by = task.get("shift_by", 1) if task.get("shift") != "random" else 1
    if not task.get("shift") or by % report.clients == 0:
        return ["each client looked at what it had made itself: it may come from its cache"]
    folders, hosts = task.get("folders"), {rank.host for rank in report.ranks}
    if isinstance(folders, list) and len(folders) == 1 and len(hosts) < report.clients:
        return ["clients share a host and a mount: what one made may come from the others' cache"]
    return []


def clock_doubts(report: Report) -> list[str]:
    """What is doubtful because the hosts' clocks differ."""
    offset_s = report.offset_s_max
    if offset_s <= OFFSET_DOUBTFUL_S:
        return []
    return [f"the clients' clocks differ by {offset_s:.3f} s, more than {OFFSET_DOUBTFUL_S:g} s"]
