"""The clocks of another machine, put on ours.

A clock is asked for several times. The other machine read it at some moment between our question
and its answer, so the quickest answer bounds the offset best (D. L. Mills, RFC 5905, section 8).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattio.clock import Instant


@dataclass(frozen=True)
class Asked:
    """When we asked and had the answer, on both of our clocks, and what the other clocks showed."""

    sent: Instant
    told: Instant
    received: Instant

    @property
    def delay_ns(self) -> int:
        """How long it took by our monotonic clock."""
        return self.received.monotonic_ns - self.sent.monotonic_ns


@dataclass(frozen=True)
class Offset:
    """By how much another machine's clocks are ahead of ours, wrong by `error_ns` at most."""

    utc_ns: int
    monotonic_ns: int
    error_ns: int
    at: Instant  # when it was found out, on our clocks

    def here(self, there: Instant) -> Instant:
        """A moment of the other machine's monotonic clock, on our clocks."""
        monotonic_ns = there.monotonic_ns - self.monotonic_ns
        return Instant(self.at.utc_ns + monotonic_ns - self.at.monotonic_ns, monotonic_ns)

    def there_ns(self, monotonic_ns: int) -> int:
        """A moment of our monotonic clock, on the other machine's."""
        return monotonic_ns + self.monotonic_ns


def offset(answers: Iterable[Asked]) -> Offset:
    """The offset by the quickest of some answers, of which there is at least one."""
    best = min(answers, key=lambda one: one.delay_ns)
    half_ns = best.delay_ns // 2
    return Offset(
        utc_ns=best.told.utc_ns - (best.sent.utc_ns + half_ns),
        monotonic_ns=best.told.monotonic_ns - (best.sent.monotonic_ns + half_ns),
        error_ns=best.delay_ns - half_ns,
        at=best.sent,
    )


@dataclass(frozen=True)
class Drift:
    """Offsets of a host before and after something."""

    before: Offset
    after: Offset

    @property
    def off_s(self) -> float:
        """The larger of both offsets of the wall clock, without what may be our own error."""
        ends = (self.before, self.after)
        return max(max(abs(one.utc_ns) - one.error_ns, 0) for one in ends) / 1e9

    @property
    def drifted_s(self) -> float:
        """By how much the monotonic clock went another way than ours, without our own error."""
        found_ns = abs(self.after.monotonic_ns - self.before.monotonic_ns)
        return max(found_ns - self.before.error_ns - self.after.error_ns, 0) / 1e9
