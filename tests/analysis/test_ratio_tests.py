"""What is called a difference: how often noise is, and how often a difference is seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from wattio.analysis import statistics
from wattio.kinds.measurement import compare
from wattio.results.runs import Run
from wattio.results.summary import Row, estimates

TRIALS = 2000
NOMINAL = 0.05
SPREADS = [(0.02, 0.02), (0.02, 0.06), (0.06, 0.02), (0.2, 0.2)]
POSITIVE = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8)


def limit(trials: int, share: float = NOMINAL) -> float:
    """Three standard deviations of how often something of that share is counted."""
    return 3 * math.sqrt(share * (1 - share) / trials)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("spreads", SPREADS)
def test_noise_is_called_a_difference_no_more_often_than_said(
    n: int, spreads: tuple[float, float]
) -> None:
    """Bootstraps of few runs called 31, 21 and 14 % of equal pairs different, and said 5 %."""
    draw = np.random.default_rng([n, SPREADS.index(spreads)])
    first, second = (draw.normal(100, 100 * spread, (TRIALS, n)) for spread in spreads)
    told = 0
    for left, right in zip(first.tolist(), second.tolist(), strict=True):
        tested = statistics.ratio_test(left, right)
        assert tested is not None
        told += tested.p < NOMINAL
    assert told / TRIALS <= NOMINAL + limit(TRIALS)
    assert told > 0


@pytest.mark.parametrize("n", [2, 3, 5])
def test_pairs_of_seeds_are_called_different_just_as_often_as_said(n: int) -> None:
    draw = np.random.default_rng(n)
    seeds = draw.normal(100, 20, (TRIALS, n))
    first, second = (seeds * draw.normal(1, 0.02, (TRIALS, n)) for _ in range(2))
    told = 0
    for left, right in zip(first.tolist(), second.tolist(), strict=True):
        tested = statistics.ratio_test(left, right, paired=True)
        assert tested is not None
        told += tested.p < NOMINAL
    assert abs(told / TRIALS - NOMINAL) <= limit(TRIALS)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_interval_of_a_mean_holds_it_as_often_as_it_says(n: int) -> None:
    """The bootstrap interval of three runs, called 95 %, held the mean in 76 % of cases."""
    draw = np.random.default_rng(n)
    held = 0
    for values in draw.normal(100, 5, (TRIALS, n)).tolist():
        found = statistics.mean_interval(values)
        assert found is not None
        held += found.low <= 100 <= found.high
    assert abs(held / TRIALS - 0.95) <= limit(TRIALS)


def row(name: str, columns: dict[str, list[float]]) -> Row:
    run = Run("posix", name, name, {})
    n = len(next(iter(columns.values())))
    parts = [{key: (values[at], "") for key, values in columns.items()} for at in range(n)]
    return Row(run, "write", n, 0, 0, estimates(parts))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_many_metrics_do_not_make_a_difference_of_noise(n: int) -> None:
    """Of eleven metrics of equal runs, one or more were called different in most comparisons."""
    trials = 500
    draw = np.random.default_rng(n)
    told = 0
    metrics = [name for name in compare.METRICS if name != "edp_w1"]
    for _ in range(trials):
        left, right = (
            row(side, {name: draw.normal(100, 2, n).tolist() for name in metrics})
            for side in ("a", "b")
        )
        found = compare.of_rows(left, right)
        assert {ratio.tests for ratio in found} == {len(metrics)}
        told += any(ratio.beyond_noise for ratio in found)
    assert told / trials <= NOMINAL + limit(trials)


@pytest.mark.parametrize(("n", "level"), [(2, 0.05), (3, 0.05), (5, 0.05), (3, 0.05 / 11)])
def test_a_difference_that_is_said_to_be_seen_is_seen(n: int, level: float) -> None:
    draw = np.random.default_rng(n)
    shape = np.linspace(-1, 1, n)
    exact = (100 + 100 * 0.01 * shape / shape.std(ddof=1)).tolist()
    tested = statistics.ratio_test(exact, exact)
    assert tested is not None
    size = tested.seen_from(level)
    first, second = (draw.normal(mean, 0.01 * mean, (TRIALS, n)) for mean in (1.0, 1 + size))
    seen = 0
    for left, right in zip(first.tolist(), second.tolist(), strict=True):
        found = statistics.ratio_test(left, right)
        assert found is not None
        seen += found.p < level
    assert abs(seen / TRIALS - 0.8) <= limit(TRIALS, 0.8)


@given(POSITIVE, POSITIVE)
def test_the_test_is_welch_s_of_the_logarithm(first: list[float], second: list[float]) -> None:
    tested = statistics.ratio_test(first, second)
    assert tested is not None
    assume(tested.error > 1e-6)
    sides = []
    for side in (first, second):
        mean = float(np.mean(side))
        sides += [math.log(mean), float(np.std(side, ddof=1)) / mean, len(side)]
    slow = stats.ttest_ind_from_stats(*sides, equal_var=False)
    assert tested.p == pytest.approx(float(slow.pvalue), rel=1e-6, abs=1e-12)
    assert tested.ratio == pytest.approx(np.mean(second) / np.mean(first))


@given(POSITIVE, st.floats(0.5, 2), st.floats(-0.1, 0.1))
def test_pairs_know_what_their_ratios_do(first: list[float], ratio: float, tilt: float) -> None:
    second = [value * ratio * (1 + tilt * at) for at, value in enumerate(first)]
    assume(min(second) > 0)
    tested = statistics.ratio_test(first, second, paired=True)
    assert tested is not None
    left, right = (np.asarray(side) / np.mean(side) for side in (first, second))
    assume(tested.error > 1e-6)
    slow = stats.sem(right - left)
    assert tested.error == pytest.approx(float(slow), rel=1e-6)
    assert tested.freedom == pytest.approx(len(first) - 1)


@given(POSITIVE, POSITIVE, st.floats(0.5, 0.99))
def test_the_interval_and_p_say_the_same(
    first: list[float], second: list[float], confidence: float
) -> None:
    tested = statistics.ratio_test(first, second)
    assert tested is not None
    assume(abs(tested.p - (1 - confidence)) > 1e-9)
    interval = tested.interval(confidence)
    assert interval.low <= tested.ratio * (1 + 1e-12)
    assert interval.high >= tested.ratio * (1 - 1e-12)
    assert (interval.low <= 1 <= interval.high) == (tested.p >= 1 - confidence)


@pytest.mark.parametrize(
    "sides", [([1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0]), ([0.0, 0.0], [1.0, 2.0])]
)
def test_no_noise_is_known_of_one_value(sides: tuple[list[float], list[float]]) -> None:
    assert statistics.ratio_test(*sides) is None
    assert statistics.mean_interval([3.0]) is None


def test_values_that_never_vary_differ_or_do_not() -> None:
    same = statistics.ratio_test([3.1, 3.1, 3.1], [3.1, 3.1])
    other = statistics.ratio_test([3.1, 3.1, 3.1], [3.2, 3.2])
    assert same is not None
    assert other is not None
    assert (same.p, same.seen_from(0.05)) == (1.0, 0.0)
    assert other.p == 0.0
    assert other.interval().low == pytest.approx(3.2 / 3.1)


@given(POSITIVE)
def test_a_geometric_mean_s_interval_is_that_of_the_logarithms(values: list[float]) -> None:
    found = statistics.geometric_interval(values)
    logs = statistics.mean_interval([math.log(value) for value in values])
    assert found is not None
    assert logs is not None
    assert found.estimate == pytest.approx(math.exp(logs.estimate))
    assert (found.low, found.high) == pytest.approx((math.exp(logs.low), math.exp(logs.high)))


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.5))
def test_holm_is_the_step_down_procedure(p_values: list[float], level: float) -> None:
    """Smallest first, each against the level over how many are left, until one is not below."""
    corrected = statistics.holm(p_values)
    rejected = set()
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    for done, at in enumerate(order):
        if p_values[at] * (len(p_values) - done) >= level:
            break
        rejected.add(at)
    assert {at for at, value in enumerate(corrected) if value < level} == rejected
    assert all(one >= alone for one, alone in zip(corrected, p_values, strict=True))


def test_draws_tell_how_often_a_ratio_is_beside_one() -> None:
    draw = np.random.default_rng(1)
    values = draw.normal(1.1, 0.1, 50)
    weights = statistics.moving_block_weights(50, 1, 500)
    interval, p = statistics.bootstrap(lambda w: float(w @ values / w.sum()), weights, 50)
    assert interval.low > 1
    assert p == pytest.approx(2 / 501)
    same, p = statistics.bootstrap(lambda _: 1.0, statistics.moving_block_weights(5, 1, 9), 5)
    assert (same.low, same.high, p) == (1.0, 1.0, 1.0)
