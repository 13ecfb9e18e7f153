"""What an estimate can tell apart: for every choice of coefficients, and by more than noise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from wattio.analysis import ranged
from wattio.analysis.cores import Spent
from wattio.analysis.modelled import Coefficients, Range
from wattio.analysis.ranged import Ranged, RangedTest, Sample

LEVEL = 0.05
HOST = Coefficients(
    "host",
    3e9,
    {"rest": Range(24.0, 48.0, 96.0), "busy": Range(3.4, 6.8, 13.6)},
    ("rest", "busy"),
)


def sample(runs: list[tuple[float, float]], model: float = 1.0) -> Sample:
    """Estimated energies of runs, each of so many seconds with so many core-seconds busy."""
    parts = [HOST.parts_j(Spent(seconds=s, busy_s=b, awake_scaled_s=b)) for s, b in runs]
    values = tuple(sum(part.value for part in own.values()) for own in parts)
    corners = [
        tuple(
            sum(part[2 * at] for part, at in zip(own.values(), ends, strict=True)) for own in parts
        )
        for ends in itertools.product((0, 1), repeat=2)
    ]
    return Sample(values, Ranged(model, tuple(corners)))


LONG = [(10.0, 8.0), (10.1, 8.1), (9.9, 7.9), (10.0, 8.0)]
SHORT = [(9.0, 7.5), (9.1, 7.6), (8.9, 7.4), (9.0, 7.5)]
"""Shorter, and less work: less energy whatever a core or the rest of the machine draws."""
POLLS = [(9.5, 14.0), (9.6, 14.1), (9.4, 13.9), (9.5, 14.0)]
"""Shorter, and more work: which takes more depends on watts that nobody knows."""


def test_less_of_everything_is_less_whatever_the_coefficients() -> None:
    tested = ranged.compared(sample(LONG), sample(SHORT))
    assert isinstance(tested, RangedTest)
    assert tested.p is not None
    assert tested.p < LEVEL
    assert not tested.is_the_models(LEVEL)
    assert ranged.untold(sample(LONG), sample(SHORT), 2, LEVEL) is None
    interval = tested.interval()
    assert interval is not None
    assert interval.low < tested.low <= tested.ratio <= tested.high < interval.high < 1


def test_less_time_for_more_work_is_not_told_apart() -> None:
    tested = ranged.compared(sample(LONG), sample(POLLS))
    assert isinstance(tested, RangedTest)
    assert tested.nominal is not None
    assert tested.nominal.p < LEVEL  # With the coefficients as they stand it looks sure.
    assert tested.low < 1 < tested.high
    assert tested.p == 1.0
    assert ranged.untold(sample(LONG), sample(POLLS), 2, LEVEL) is not None
    # 10 s and 8 core-seconds against 9.5 and 14: 24 and 13.6 W, or 96 and 3.4 W.
    assert tested.high == pytest.approx((24 * 9.5 + 13.6 * 14) / (24 * 10 + 13.6 * 8))
    assert tested.low == pytest.approx((96 * 9.5 + 3.4 * 14) / (96 * 10 + 3.4 * 8))
    assert "0.97 to 1.20 times the energy of tp" in tested.why("tp", "dc:1", "energy")


def test_one_run_each_says_nothing_of_noise_but_the_range_is_known() -> None:
    tested = ranged.compared(sample(LONG[:1]), sample(POLLS[:1]))
    assert isinstance(tested, RangedTest)
    assert (tested.p, tested.interval()) == (None, None)
    assert tested.is_the_models(LEVEL)
    other = ranged.compared(sample(LONG[:1]), sample(SHORT[:1]))
    assert isinstance(other, RangedTest)
    assert not other.is_the_models(LEVEL)


def test_noise_within_an_estimate_stays_noise() -> None:
    spread = [(10.0, 8.0), (13.0, 11.0), (7.0, 5.0), (10.0, 8.0)]
    tested = ranged.compared(sample(spread), sample(SHORT))
    assert isinstance(tested, RangedTest)
    assert tested.p is not None
    assert tested.p > LEVEL
    assert not tested.is_the_models(LEVEL)


def test_another_machine_may_be_wrong_by_other_amounts() -> None:
    """The same coefficients on two machines: each has the whole of its range for itself."""
    tested = ranged.compared(sample(LONG), sample(SHORT, model=2.0))
    assert isinstance(tested, RangedTest)
    assert tested.is_open
    # A meter beside it has no range.
    metered = Sample(tuple(3 * value for value in sample(LONG).values))
    beside = ranged.compared(metered, sample(SHORT))
    assert isinstance(beside, RangedTest)
    assert not beside.is_open
    assert ranged.untold(metered, sample(LONG), 2, LEVEL) is None
    assert ranged.untold(Sample(sample(LONG).values), sample(SHORT), 2, LEVEL) is not None


def test_measured_sides_are_tested_as_ever() -> None:
    one, other = Sample(sample(LONG).values), Sample(sample(SHORT).values)
    assert not isinstance(ranged.compared(one, other), RangedTest)
    assert ranged.untold(one, other, 2, LEVEL) is None


@pytest.mark.parametrize("seed", range(20))
def test_corners_answer_for_all_that_is_between_them(seed: int) -> None:
    """Any coefficients in the box give a ratio between the ends, and no larger p value."""
    generator = np.random.default_rng(seed)
    runs = [
        [(float(s), float(b)) for s, b in generator.normal((mean, work), 0.05, (4, 2))]
        for mean, work in ((10.0, 8.0), generator.uniform((7.0, 4.0), (10.0, 9.0)))
    ]
    tested = ranged.compared(*map(sample, runs))
    assert isinstance(tested, RangedTest)
    assert tested.p is not None
    for _ in range(50):
        rest, busy = generator.uniform((24.0, 3.4), (96.0, 13.6))
        sides = [Sample(tuple(rest * s + busy * b for s, b in own)) for own in runs]
        inner = ranged.compared(*sides)
        assert inner is not None
        assert tested.low - 1e-9 <= inner.ratio <= tested.high + 1e-9
        assert inner.p is not None
        # Welch's degrees of freedom change along the box, and p a little with them.
        assert inner.p <= tested.p * 1.5 + 1e-9
