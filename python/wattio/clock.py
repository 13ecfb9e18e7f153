"""Instants on both clocks of this machine, and spans between them.

Wall clock (UTC) says when something was for other machines; the monotonic clock of this boot says
how long it took, whatever happens to the wall clock meanwhile. Everything that is measured carries
both. This is the only module of the measuring rooms that asks for the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple


class Instant(NamedTuple):
    """One moment: nanoseconds since 1970 in UTC, and on the monotonic clock of this boot."""

    utc_ns: int
    monotonic_ns: int


@dataclass(frozen=True)
class Span:
    """A named stretch of time."""

    name: str
    start: Instant
    end: Instant

    @property
    def seconds(self) -> float:
        """How long it lasted, by the monotonic clock."""
        return (self.end.monotonic_ns - self.start.monotonic_ns) / 1e9


def now() -> Instant:
    """This moment on both clocks, read one right after the other."""
    return Instant(time.time_ns(), time.monotonic_ns())


def at_utc(utc_ns: int) -> Instant:
    """A moment that is known by its wall clock only, put on the monotonic clock by today's offset.

    Wrong by as much as the wall clock was set in between.
    """
    moment = now()
    return Instant(utc_ns, utc_ns - moment.utc_ns + moment.monotonic_ns)
