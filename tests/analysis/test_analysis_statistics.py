"""Means, deviations, and bootstraps of series; tests of ratios are in test_ratio_tests.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis import statistics

SAMPLES = st.lists(st.floats(0.1, 1e3), min_size=2, max_size=30)


@given(SAMPLES)
def test_deviation_of_a_sample_divides_by_one_less(values: list[float]) -> None:
    mean = sum(values) / len(values)
    slow = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    found = statistics.sample_deviation(values)
    assert found is not None
    assert math.isclose(found, slow, rel_tol=1e-9, abs_tol=1e-9)


def test_one_value_has_no_deviation() -> None:
    assert statistics.sample_deviation([3.0]) is None


@given(SAMPLES)
def test_geometric_mean_of_inverses_is_the_inverse(values: list[float]) -> None:
    mean = statistics.geometric_mean(values)
    inverse = statistics.geometric_mean([1 / value for value in values])
    assert math.isclose(mean * inverse, 1, rel_tol=1e-9)
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)


def test_geometric_mean_needs_positive_values() -> None:
    with pytest.raises(ValueError, match="above 0"):
        statistics.geometric_mean([1.0, 0.0])


def test_blocks_widen_the_interval_of_dependent_values() -> None:
    # In a slowly changing series neighbours repeat each other: independent draws are too sure.
    draw = np.random.default_rng(3)
    series = np.zeros(600)
    for index in range(1, len(series)):
        series[index] = 0.9 * series[index - 1] + draw.normal()

    def width(block: int) -> float:
        weights = statistics.moving_block_weights(len(series), 1, 500, block)
        interval, _ = statistics.bootstrap(
            lambda w: float(w @ series / w.sum()), weights, len(series)
        )
        return interval.high - interval.low

    assert width(40) > 2 * width(1)


@given(st.integers(1, 50), st.integers(0, 5))
def test_weights_always_draw_as_many_as_there_are(size: int, seed: int) -> None:
    for weights in statistics.moving_block_weights(size, seed, 3):
        assert weights.shape == (size,)
        assert weights.sum() == size
