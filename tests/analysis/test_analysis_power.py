from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis import power


def slow_energy(times: list[float], powers: list[float], start: float, end: float) -> float:
    """The integral of the broken line through the samples, by a fine rectangle sum."""
    steps = 20_000
    width = (end - start) / steps
    middles = [start + (index + 0.5) * width for index in range(steps)]
    return sum(float(np.interp(t, times, powers)) for t in middles) * width


@given(
    st.lists(st.floats(0, 1000), min_size=1, max_size=12),
    st.floats(0.1, 3),
    st.floats(0, 10),
    st.floats(0, 10),
)
def test_energy_is_the_integral_of_the_line_through_the_samples(
    powers: list[float], step: float, one: float, other: float
) -> None:
    times = [index * step for index in range(len(powers))]
    start, end = sorted((one, other))
    found = power.energy_between(np.array(times), np.array(powers), start, end)
    assert found is not None
    whole = np.interp([start, end], times, powers)
    inner = [t for t in times if start < t < end]
    points = [start, *inner, end]
    values = [whole[0], *[powers[times.index(t)] for t in inner], whole[1]]
    expected = sum(
        (b - a) * (p + q) / 2
        for a, b, p, q in zip(points, points[1:], values, values[1:], strict=False)
    )
    assert found == pytest.approx(expected, abs=1e-6)


def test_energy_agrees_with_a_fine_sum() -> None:
    times, powers = [0.0, 1.0, 2.5, 4.0], [10.0, 30.0, 20.0, 50.0]
    found = power.energy_between(np.array(times), np.array(powers), 0.4, 3.7)
    assert found == pytest.approx(slow_energy(times, powers, 0.4, 3.7), rel=1e-6)


@given(st.lists(st.floats(0, 100), min_size=3, max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_phases_side_by_side_add_up(powers: list[float], one: float, other: float) -> None:
    times = np.arange(len(powers), dtype=float)
    values = np.array(powers)
    cuts = sorted((one * times[-1], other * times[-1]))
    edges = [0.0, *cuts, float(times[-1])]
    parts = [power.energy_between(times, values, a, b) or 0.0 for a, b in itertools.pairwise(edges)]
    whole = power.energy_between(times, values, 0.0, float(times[-1]))
    assert sum(parts) == pytest.approx(whole)


def test_a_counter_is_interpolated_and_needs_a_reading_on_both_sides() -> None:
    times, energy = np.array([0.0, 1, 2, 3]), np.array([0.0, 10, 30, 35])
    assert power.energy_counted(times, energy, 0.5, 2.5) == pytest.approx(32.5 - 5)
    assert power.energy_counted(times, energy, 0.5, 3.5) is None
    assert power.energy_counted(times, energy, -0.5, 2.0) is None
    assert power.energy_counted(times, np.array([0.0, 10, 2, 35]), 0.5, 2.5) is None


def test_samples_without_power_are_left_out() -> None:
    times, powers = np.array([0.0, 1, 2]), np.array([np.nan, 5, 5])
    assert power.energy_between(times, powers, 0.0, 2.0) == pytest.approx(10)
    assert power.energy_between(times, np.full(3, np.nan), 0.0, 2.0) is None
    assert power.distribution(np.full(3, np.nan)) is None


def test_a_gap_counts_from_the_sample_before_to_the_one_after() -> None:
    times = np.array([0.0, 1, 2, 7, 8])
    assert power.longest_gap(times, 1.5, 7.5) == pytest.approx(5)
    assert power.longest_gap(times, 2.5, 3.5) == pytest.approx(5)
    assert power.longest_gap(times, 0.5, 1.5) == pytest.approx(1)
    assert power.longest_gap(times, 7.5, 20) == pytest.approx(12)
    assert power.longest_gap(np.empty(0), 1, 4) == pytest.approx(3)


@given(st.integers(1, 200), st.floats(0.01, 2), st.floats(0, 1))
def test_an_even_series_misses_nothing_wherever_the_phase_begins(
    count: int, interval: float, shift: float
) -> None:
    times = np.arange(count + 2, dtype=np.float64) * interval
    start = shift * interval
    # A hair longer than whole intervals, so that rounding takes none of them away.
    assert power.missing_share(times, start, start + count * interval + 1e-9, interval) == 0


def test_missing_samples_are_a_share_of_those_expected() -> None:
    times = np.array([0.0, 1, 2, 3, 4, 8, 9, 10])
    assert power.missing_share(times, 0.0, 10.0, 1.0) == pytest.approx(0.2)
    assert power.missing_share(times, 0.0, 0.5, 1.0) == 0


def test_a_standstill_is_found_with_its_ends() -> None:
    times = np.arange(10.0)
    value = np.array([1.0, 2, 3, 3, 3, 3, 3, 4, 5, 5])
    assert power.standstills(times, value, 4.0) == [(2.0, 6.0)]
    assert power.standstills(times, value, 1.0) == [(2.0, 6.0), (8.0, 9.0)]
    assert power.standstills(times, np.full(10, np.nan), 1.0) == []
    assert power.standstills(np.empty(0), np.empty(0), 1.0) == []


def test_a_jump_of_the_wall_clock_is_seen_in_either_direction() -> None:
    monotonic = np.arange(5, dtype=np.int64) * 10**9
    utc = monotonic + 10**18
    assert power.clock_jump(utc, monotonic) == 0
    utc[3:] -= 2 * 10**9
    assert power.clock_jump(utc, monotonic) == pytest.approx(2)
