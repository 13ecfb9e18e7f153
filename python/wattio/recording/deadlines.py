"""When a reading is due: a grid on the monotonic clock that does not drift; when clocks jump."""

from __future__ import annotations

from wattio.clock import Instant

JUMP_NS = 50_000_000
"""By more than this, and the wall clock was set; by less, it is steered."""


class Deadlines:
    """Moments `period_ns` apart, beginning at `first_ns`; those that pass unused are counted."""

    def __init__(self, period_ns: int, first_ns: int) -> None:
        """Begin the grid."""
        self.due_ns = first_ns
        self._period_ns = period_ns

    def advance(self, now_ns: int) -> int:
        """Go on to the next deadline that is not over yet; how many were skipped."""
        self.due_ns += self._period_ns
        if now_ns < self.due_ns:
            return 0
        # One that is just over is still met, late; more are gone.
        skipped = (now_ns - self.due_ns) // self._period_ns
        self.due_ns += skipped * self._period_ns
        return int(skipped)


class BackOff:
    """Pauses between attempts, in seconds: each twice as long as the last, up to a limit."""

    def __init__(self, first_s: float, limit_s: float) -> None:
        """Begin with `first_s`."""
        self._next_s = first_s
        self._limit_s = limit_s

    def next_s(self) -> float:
        """How long to wait now."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._limit_s)
        return pause_s


class ClockWatch:
    """Notices when the wall clock is set: it and the monotonic clock come apart."""

    def __init__(self, first: Instant) -> None:
        """Begin with both clocks as they are."""
        self._offset_ns = first.utc_ns - first.monotonic_ns

    def jump_s(self, now: Instant) -> float | None:
        """By how many seconds it was set since the last call; None if it was not."""
        before_ns, self._offset_ns = self._offset_ns, now.utc_ns - now.monotonic_ns
        by_ns = self._offset_ns - before_ns
        return by_ns / 1e9 if abs(by_ns) > JUMP_NS else None
