"""Means, deviations and bootstrap intervals."""

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


def test_bootstrap_covers_the_mean_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(7)
    trials, covered = 200, 0
    for trial in range(trials):
        sample = draw.normal(10, 2, size=40).tolist()
        interval = statistics.bootstrap_mean(sample, seed=trial, resamples=400)
        covered += interval.low <= 10 <= interval.high
    assert 0.88 <= covered / trials <= 0.99


def test_blocks_widen_the_interval_of_dependent_values() -> None:
    # In a slowly changing series neighbours repeat each other: independent draws are too sure.
    draw = np.random.default_rng(3)
    series = np.zeros(600)
    for index in range(1, len(series)):
        series[index] = 0.9 * series[index - 1] + draw.normal()

    def width(weights: object) -> float:
        interval = statistics.bootstrap(
            lambda w: float(w @ series / w.sum()),
            weights,  # type: ignore[arg-type]
            len(series),
        )
        return interval.high - interval.low

    independent = width(statistics.independent_weights(len(series), 1, 500))
    blocks = width(statistics.moving_block_weights(len(series), 1, 500, block=40))
    assert blocks > 2 * independent


@given(st.integers(1, 50), st.integers(0, 5))
def test_weights_always_draw_as_many_as_there_are(size: int, seed: int) -> None:
    for weights in (
        *statistics.independent_weights(size, seed, 3),
        *statistics.moving_block_weights(size, seed, 3),
    ):
        assert weights.shape == (size,)
        assert weights.sum() == size


def test_same_seed_same_interval() -> None:
    first, second = (statistics.bootstrap_mean([1.0, 2.0, 4.0], seed=5) for _ in range(2))
    assert first == second
    assert first.low <= first.estimate <= first.high
