"""Energy accounting against sums written out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis import efficiency, energy


def test_mean_power_weighs_windows_by_their_span() -> None:
    joules, spans = np.array([100.0, 300.0]), np.array([1.0, 2.0])
    assert energy.mean_power_w(joules, spans) == pytest.approx(400 / 3)


def test_a_missing_energy_is_not_taken_as_zero() -> None:
    with pytest.raises(ValueError, match="without energy"):
        energy.total_energy_j(np.array([1.0, np.nan]))


def test_no_span_has_no_mean_power() -> None:
    with pytest.raises(ValueError, match="span time"):
        energy.mean_power_w(np.array([]), np.array([]))


def test_balance_is_relative_to_the_larger() -> None:
    assert energy.balance_error(10.0, {"a": 4.0, "b": 6.0}) == 0
    assert energy.balance_error(10.0, {"a": 5.0}) == 0.5
    assert energy.balance_error(0.0, {}) == 0


def test_efficiency_in_its_units() -> None:
    assert efficiency.iops_per_watt(6000, 600) == 10
    assert efficiency.mib_per_joule(8 * 1024 * 1024, 4) == 2
    assert efficiency.energy_delay_product(3, 2) == 6
    assert efficiency.energy_delay_product(3, 2, weight=2) == 12
    assert efficiency.normalised_to_least([6, 3, 4.5]) == [2, 1, 1.5]


@given(st.floats(1, 1e4), st.floats(1, 1e4), st.floats(1, 1e4))
def test_captured_share_is_one_at_the_oracle_and_zero_at_native(
    native_w: float, oracle_w: float, power_w: float
) -> None:
    share = efficiency.captured_share(power_w, native_w, oracle_w)
    if native_w - oracle_w <= 1e-3 * native_w:
        assert share is None
        return
    assert efficiency.captured_share(oracle_w, native_w, oracle_w) == 1
    assert efficiency.captured_share(native_w, native_w, oracle_w) == 0
    assert share is not None
    assert math.isclose(
        native_w - share * (native_w - oracle_w), power_w, rel_tol=1e-6, abs_tol=1e-6
    )


def test_work_per_no_power_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        efficiency.iops_per_watt(1, 0)
    with pytest.raises(ValueError, match="weight"):
        efficiency.energy_delay_product(1, 1, weight=0)
