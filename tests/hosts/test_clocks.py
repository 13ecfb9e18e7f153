"""Another machine's clocks on ours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from wattio.clock import Instant
from wattio.hosts.clocks import Asked, Drift, Offset, offset

MOMENT = st.integers(0, 10**18)
DELAYS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=9)


def answers(start: int, delays: list[tuple[int, int]], utc: int, monotonic: int) -> list[Asked]:
    """Answers of clocks that are ahead by so much, whatever both ways take."""
    found, at = [], start
    for there, back in delays:
        read = at + there
        told = Instant(read + 10**18 + utc, read + monotonic)
        end = read + back
        found.append(Asked(Instant(at + 10**18, at), told, Instant(end + 10**18, end)))
        at = end + 1
    return found


@given(MOMENT, DELAYS, st.integers(-(10**17), 10**17), st.integers(-(10**17), 10**17))
def test_the_true_offset_is_within_the_error(
    start: int, delays: list[tuple[int, int]], utc: int, monotonic: int
) -> None:
    found = offset(answers(start, delays, utc, monotonic))
    assert abs(found.utc_ns - utc) <= found.error_ns
    assert abs(found.monotonic_ns - monotonic) <= found.error_ns
    # No answer bounds it better.
    assert found.error_ns <= min(there + back for there, back in delays) // 2 + 1
    there = Instant(0, start + monotonic)
    assert abs(found.here(there).monotonic_ns - start) <= found.error_ns
    assert found.here(there).utc_ns - found.here(there).monotonic_ns == 10**18
    assert found.there_ns(found.here(there).monotonic_ns) == there.monotonic_ns


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12), st.integers(0, 10**6))
def test_what_may_be_our_own_error_is_not_charged(first: int, second: int, error: int) -> None:
    ends = [Offset(off, off, error, Instant(0, 0)) for off in (first, second)]
    drift = Drift(*ends)
    assert drift.off_s == max(max(abs(first), abs(second)) - error, 0) / 1e9
    assert drift.drifted_s == max(abs(first - second) - 2 * error, 0) / 1e9
