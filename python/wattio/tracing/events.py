"""Text of the kernel's tracing buffer: one line becomes an event, a loss, or nothing. Pure.

Format: `trace_pipe` of tracefs (kernel documentation, `trace/ftrace.rst`), event
`block:block_bio_queue` with the print format `"%d,%d %s %llu + %u [%s]"`:

    postgres-812   [001] d..1.  5012.250411: block_bio_queue: 254,0 WS 2048 + 16 [postgres]
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from enum import Enum

EVENT = "block_bio_queue"

_SECTOR_MAX = 2**64 - 1
_SECTORS_MAX = 2**32 - 1
_SEPARATOR = f": {EVENT}: "
# A task's name has at most 15 characters, so it cannot hold the separator and deceive the split.
_STAMP = re.compile(r"\s(\d{1,12})\.(\d{6})\Z", re.ASCII)
_REQUEST = re.compile(
    r"(\d{1,10}),(\d{1,10}) ([A-Z]{1,9}) (\d{1,20}) \+ (\d{1,10}) \[.*\]\s*\Z", re.ASCII
)
_LOST = re.compile(r"\ACPU:(\d+) \[LOST (\d+) EVENTS\]\s*\Z", re.ASCII)


class UnreadableEvent(ValueError):  # noqa: N818 (names what was met)
    """A line of the tracing buffer that is none of the known ones."""


class Kind(Enum):
    """What a request does."""

    READ = "R"
    WRITE = "W"
    FLUSH = "flush"
    DISCARD = "discard"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Event:
    """A request that was queued."""

    time_us: int
    """Of the tracing clock, from any origin."""
    major: int
    minor: int
    kind: Kind
    sector: int
    sectors: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The kernel dropped events because nobody read them in time."""

    cpu: int
    events: int


def parse(line: str) -> Event | Lost | None:
    """Read one line; None for an empty line or a comment. Raises UnreadableEvent."""
    if not line.strip() or line.startswith("#"):
        return None
    head, separator, tail = line.partition(_SEPARATOR)
    if not separator:
        lost = _LOST.match(line)
        if lost is None:
            raise UnreadableEvent(f"not a line of {EVENT}: {line[:120]!r}")
        return Lost(cpu=int(lost[1]), events=int(lost[2]))
    stamp, request = _STAMP.search(head), _REQUEST.match(tail)
    if stamp is None or request is None:
        raise UnreadableEvent(f"{EVENT} in an unknown format: {line[:120]!r}")
    major, minor, sector, sectors = map(int, request.group(1, 2, 4, 5))
    if sector > _SECTOR_MAX or sectors > _SECTORS_MAX:
        raise UnreadableEvent(f"a request larger than the kernel can make: {line[:120]!r}")
    return Event(
        time_us=int(stamp[1]) * 1_000_000 + int(stamp[2]),
        major=major,
        minor=minor,
        kind=kind_of(request[3], sectors),
        sector=sector,
        sectors=sectors,
    )


def kind_of(flags: str, sectors: int) -> Kind:
    """What the kernel's `rwbs` letters mean (`blk_fill_rwbs` in block/blk-core.c).

    An F before the operation asks for a flush first, one after it for a write through the cache;
    such a request still carries its data. Without data, it is only a flush.
    """
    operation = flags.removeprefix("F") or "F"
    if operation[0] == "D":
        return Kind.DISCARD
    if operation[0] in "RW" and sectors > 0:
        return Kind.READ if operation[0] == "R" else Kind.WRITE
    return Kind.FLUSH if "F" in flags else Kind.OTHER


@dataclass
class Tally:
    """Requests of one recording, column by column: 21 bytes each."""

    times_us: array[int] = field(default_factory=lambda: array("Q"))
    sectors: array[int] = field(default_factory=lambda: array("Q"))
    lengths: array[int] = field(default_factory=lambda: array("I"))
    reads: array[int] = field(default_factory=lambda: array("B"))
    flushes: int = 0
    discards: int = 0
    others: int = 0
    lost: int = 0
    """Events that the kernel says it dropped."""

    def __len__(self) -> int:
        """Requests with data."""
        return len(self.times_us)

    def add(self, line: str) -> None:
        """Take one line of the tracing buffer. Raises UnreadableEvent."""
        event = parse(line)
        if event is None:
            return
        if isinstance(event, Lost):
            self.lost += event.events
            return
        match event.kind:
            case Kind.READ | Kind.WRITE:
                self.times_us.append(event.time_us)
                self.sectors.append(event.sector)
                self.lengths.append(event.sectors)
                self.reads.append(event.kind is Kind.READ)
            case Kind.FLUSH:
                self.flushes += 1
            case Kind.DISCARD:
                self.discards += 1
            case Kind.OTHER:
                self.others += 1

    def blkparse_line(self, index: int) -> str:
        """Request `index` as blkparse writes it, which the native converter reads.

        The one disk that was recorded is device 0, whatever its number on this machine.
        """
        seconds, micros = divmod(self.times_us[index], 1_000_000)
        kind = "R" if self.reads[index] else "W"
        extent = f"{self.sectors[index]} + {self.lengths[index]}"
        stamp = f"{seconds}.{micros:06d}"
        return f"0,0 0 {index + 1} {stamp} 0 Q {kind} {extent} [-]\n"
