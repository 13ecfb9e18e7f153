"""Instants on both clocks of this machine, and spans between them.

Wall clock (UTC) says when something was for other machines; the monotonic clock of this boot says
how long it took, whatever happens to the wall clock meanwhile. Everything that is measured carries
both. This is the only module of the measuring rooms that asks for the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

_DISORDER_NS = 60 * 10**9
"""Logs may be out of order by less than this; clocks go back by more."""


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


def utc_ns_of(moment: datetime, zone: tzinfo, before_ns: int | None = None) -> int:
    """Nanoseconds since 1970 of a moment as clocks of a zone showed it.

    In autumn they show an hour twice. It is the first one, or the second one where the first would
    go back behind `before_ns`, what was written just before; where nothing was, nobody knows. In
    spring they leave one out. Raises ValueError for both, OverflowError for what cannot be.
    """
    first_ns, second_ns = (_since_1970_ns(moment.replace(tzinfo=zone, fold=at)) for at in (0, 1))
    if first_ns == second_ns:
        return first_ns
    told = f'"{moment:%Y-%m-%d %H:%M:%S}"'
    if first_ns > second_ns:
        raise ValueError(
            f"{told} does not exist in {zone}: clocks go forward then; is that the zone?"
        )
    if before_ns is None:
        raise ValueError(
            f"{told} occurs twice in {zone}: clocks go back then; write the distance from UTC"
            " behind it, or in place of the zone, such as +01:00"
        )
    return first_ns if first_ns > before_ns - _DISORDER_NS else second_ns


def _since_1970_ns(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
