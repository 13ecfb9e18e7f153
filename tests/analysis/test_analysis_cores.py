"""Core-seconds from the counters of the kernel: made-up /proc/stat, cores that come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis import cores
from wattio.analysis.cores import TICK_S, Counter, Look, Ticks

CPU = "sys/devices/system/cpu/cpu0"


def test_lines_of_cores_are_read_by_their_columns() -> None:
    text = "cpu  9 9 9 9\ncpu0 1 2 4 100 8 16 32 64 5 5\ncpu12 0 0 0 7 0 0 0\nintr 5 6 7\n"
    assert cores.parse_stat(text) == {0: Ticks(1 + 2 + 4 + 16 + 32, 100, 8, 64), 12: Ticks(0, 7)}


@pytest.mark.parametrize("text", ["", "intr 5\n", "cpu  1 2 3 4 5 6 7\n"])
def test_a_text_without_cores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="lists no core"):
        cores.parse_stat(text)


def test_a_line_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="'cpu0 1 2 x 4 5 6 7' is not a line of a core"):
        cores.parse_stat("cpu0 1 2 x 4 5 6 7\n")


def test_a_core_that_came_on_or_went_back_counts_as_idle() -> None:
    old = {0: Ticks(10, 90), 1: Ticks(50, 50)}
    new = {0: Ticks(30, 110), 1: Ticks(5, 195), 2: Ticks(900, 0)}
    assert cores.shares(old, new) == {0: 0.5, 1: 0.0, 2: 0.0}


def test_frequency_and_idle_states_are_found_by_their_places() -> None:
    look = cores.look_of(
        {
            "proc/stat": "cpu0 1 0 0 0 0 0 0\n",
            f"{CPU}/cpufreq/scaling_cur_freq": "1200000\n",
            f"{CPU}/cpuidle/state0/name": "POLL\n",
            f"{CPU}/cpuidle/state0/time": "1500000\n",
            f"{CPU}/cpuidle/state1/time": "250000\n",  # Whose name has gone.
            f"{CPU}/cpuidle/state2/time": "many\n",
        }
    )
    assert look.hertz == {0: 1.2e9}
    assert look.states_s == {0: {"POLL": 1.5, "state1": 0.25}}
    assert look.requests == 0


def test_core_seconds_add_up_over_looks_at_cores_that_come_and_go() -> None:
    counter = Counter(2e9)
    counter.take(0.0, Look({0: Ticks(0, 0), 1: Ticks(0, 0)}))
    # Core 1 is off at the second look, and its counters begin anew at the third.
    counter.take(1.0, Look({0: Ticks(60, 40)}, hertz={0: 1e9}))
    counter.take(2.0, Look({0: Ticks(60, 140), 1: Ticks(5, 5)}, hertz={0: 1e9}))
    spent = counter.take(3.0, Look({0: Ticks(60, 230, 10), 1: Ticks(35, 35, 0, 40)}))
    assert spent.seconds == pytest.approx(3.0)
    assert spent.on_s == pytest.approx(4.0)
    assert spent.busy_s == pytest.approx(0.6 + 0.3)
    assert spent.idle_s == pytest.approx(0.4 + 1.0 + 0.9 + 0.3)
    assert (spent.iowait_s, spent.steal_s) == pytest.approx((0.1, 0.4))
    # At half speed while it was told, else at full speed.
    assert spent.on_scaled_s == pytest.approx(0.5 + 0.5 + 1 + 1)
    assert spent.awake_scaled_s == pytest.approx(0.5 * 0.6 + 0.3)


@given(
    st.lists(
        st.lists(st.sampled_from(("busy", "idle", "iowait", "steal")), min_size=1, max_size=40),
        min_size=1,
        max_size=4,
    )
)
def test_busy_idle_waiting_and_stolen_make_up_the_time_of_all_cores(
    every: list[list[str]],
) -> None:
    """Cores that spend each tick somehow, looked at whenever: nothing is lost or counted twice."""
    ticks = max(map(len, every))
    counter = Counter()
    for at in (*range(0, ticks, 3), ticks):
        told = {}
        for core, story in enumerate(every):
            lived = [story[tick % len(story)] for tick in range(at)]
            told[core] = Ticks(*map(lived.count, ("busy", "idle", "iowait", "steal")))
        spent = counter.take(at * TICK_S, Look(told))
    whole_s = spent.busy_s + spent.idle_s + spent.iowait_s + spent.steal_s
    assert whole_s == pytest.approx(len(every) * spent.seconds)
    assert spent.on_s == pytest.approx(len(every) * spent.seconds)


def test_what_is_between_two_moments_is_interpolated_and_not_extrapolated() -> None:
    counter = Counter()
    looks = [
        (10**9 * at, counter.take(float(at), Look({0: Ticks(busy, 100 * at - busy)})))
        for at, busy in ((0, 0), (1, 100), (2, 100), (3, 150))
    ]
    found = cores.between(looks, 500_000_000, 2_500_000_000)
    assert found is not None
    assert (found.seconds, found.busy_s, found.idle_s) == pytest.approx((2.0, 0.75, 1.25))
    assert cores.between(looks, 0, 3_100_000_000) is None
    assert cores.between(looks, 0, 3_010_000_000, slack_ns=20_000_000) is not None
    assert cores.between(looks[:1], 0, 0) is None


def test_what_is_kept_is_read_again() -> None:
    counter = Counter(3e9)
    counter.take(0.0, Look({0: Ticks(0, 0)}, 0, {0: 1e9}, {0: {"C1": 0.0}}))
    spent = counter.take(2.0, Look({0: Ticks(50, 150)}, 7, {0: 1e9}, {0: {"C1": 1.25}}))
    plain = cores.as_plain(spent)
    again = cores.of_plain(plain)
    assert cores.as_plain(again) == plain
    assert (again.busy_s, again.full_hz, again.requests) == (0.5, 3e9, 7)
    assert again.awake_scaled_s == pytest.approx(0.5 / 3)
    assert spent.states_s == {"C1": 1.25}
