"""What meters' samples have in common: stamps, plausible powers, counters that wrap."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.clock import Instant
from wattio.meters import MeterLost
from wattio.meters.sample import EnergyCounter, midway, plausible


def at(seconds: float) -> Instant:
    return Instant(10**18 + round(seconds * 1e9), round(seconds * 1e9))


def test_the_moment_of_a_value_is_midway() -> None:
    assert midway(Instant(100, 10), Instant(200, 30)) == Instant(150, 20)


@pytest.mark.parametrize("power_w", [-1.0, math.nan, math.inf, 10.1e6])
def test_what_cannot_be_true_is_lost(power_w: float) -> None:
    with pytest.raises(MeterLost, match=r"pdu: reports .* W; allowed: 0 to 10000000 W"):
        plausible(power_w, "pdu")


def test_what_can_be_true_is_told() -> None:
    assert plausible(0.0, "pdu") == 0.0
    assert plausible(137.0, "pdu") == 137.0


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.integers(0, 2**32 - 1))
def test_energy_is_counted_over_wraps(steps: list[int], start: int) -> None:
    counter = EnergyCounter("pdu", 0.1, 2**32)
    count, total = start, 0
    assert counter.take(count, at(0)) == (None, 0.0)
    for number, step in enumerate(steps, start=1):
        count, total = (count + step) % 2**32, total + step
        power_w, energy_j = counter.take(count, at(number))
        assert power_w == pytest.approx(step * 0.1)
        assert energy_j == pytest.approx(total * 0.1)


def test_a_counter_that_was_set_back_is_lost_and_counts_on() -> None:
    counter = EnergyCounter("pdu", 3600.0, 2**32)
    counter.take(5000, at(0))
    counter.take(5001, at(60))
    with pytest.raises(MeterLost, match="was reset from 5001 to 3"):
        counter.take(3, at(120))
    assert counter.take(4, at(180)) == (60.0, 7200.0)


def test_a_counter_that_leaps_is_lost() -> None:
    counter = EnergyCounter("pdu", 3600.0, 2**32)
    counter.take(5, at(0))
    with pytest.raises(MeterLost, match="jumped from 5 to 4294967295"):
        counter.take(2**32 - 1, at(1))
