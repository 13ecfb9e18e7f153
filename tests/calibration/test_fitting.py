"""The fit on points of known coefficients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wattio.calibration.fit import CalibrationFailed, Fit, Fitted, Unidentified, fit

from calibration.made import TRUE_W, points, power_of

ASSUMED_IO_W = 0.05


def fitted(found: Fit, name: str) -> Fitted:
    coefficient = found.coefficients[name]
    assert isinstance(coefficient, Fitted), coefficient
    return coefficient


def left(found: Fit, name: str) -> Unidentified:
    coefficient = found.coefficients[name]
    assert isinstance(coefficient, Unidentified), coefficient
    return coefficient


def test_without_noise_the_coefficients_come_out_exactly() -> None:
    found = fit(points(noise_w=0.0), ASSUMED_IO_W)
    for name, watts in TRUE_W.items():
        assert fitted(found, name).watts == pytest.approx(watts, abs=1e-9)
    assert found.r_squared == pytest.approx(1.0, abs=1e-12)
    assert max(map(abs, found.residuals_w)) < 1e-9


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    runs = [fit(points(noise_w=0.5, seed=seed), ASSUMED_IO_W) for seed in range(100)]
    for name, watts in TRUE_W.items():
        inside = sum(fitted(run, name).low_w <= watts <= fitted(run, name).high_w for run in runs)
        # 95 of 100 are expected; fewer than 88 would come by chance once in 500 times.
        assert inside >= 88, name


def test_noise_is_told_by_the_deviation_and_r_squared() -> None:
    quiet, loud = (fit(points(noise_w=noise), ASSUMED_IO_W) for noise in (0.1, 8.0))
    assert quiet.deviation_w == pytest.approx(0.1, rel=0.3)
    assert loud.deviation_w == pytest.approx(8.0, rel=0.3)
    assert quiet.is_good
    assert not loud.is_good


def test_one_frequency_leaves_the_shares_by_frequency_in_the_others() -> None:
    found = fit(points(phis=(1.0,)), ASSUMED_IO_W)
    assert left(found, "busy_frequency").merged_into == ("busy",)
    assert left(found, "core_frequency").merged_into == ("core",)
    busy_w = TRUE_W["busy"] + TRUE_W["busy_frequency"]
    core_w = TRUE_W["core"] + TRUE_W["core_frequency"]
    assert fitted(found, "busy").watts == pytest.approx(busy_w, abs=0.1)
    assert fitted(found, "core").watts == pytest.approx(core_w, abs=0.1)


def test_one_number_of_cores_leaves_them_in_the_rest() -> None:
    found = fit(points(cores=(8,)), ASSUMED_IO_W)
    assert left(found, "core").merged_into == ("rest",)
    rest_w = TRUE_W["rest"] + 8 * TRUE_W["core"]
    assert fitted(found, "rest").watts == pytest.approx(rest_w, abs=0.5)
    assert fitted(found, "core_frequency").watts == pytest.approx(0.5, abs=0.1)


def test_a_host_without_knobs_still_tells_rest_and_busy() -> None:
    found = fit(points(phis=(1.0,), cores=(2,), kiops=(0.0,), noise_w=0.05), ASSUMED_IO_W)
    told = {name for name, c in found.coefficients.items() if isinstance(c, Fitted)}
    assert told == {"rest", "busy"}
    assert left(found, "io").watts == ASSUMED_IO_W
    assert left(found, "core_frequency").merged_into == ("rest",)


def test_io_that_was_not_swept_is_not_fitted() -> None:
    made = [replace(point, readers=0) for point in points()]
    assert left(fit(made, ASSUMED_IO_W), "io").why.startswith("no I/O was swept")
    unseen = [replace(point, kiops=0.0, readers=1) for point in points(kiops=(0.0,))]
    assert left(fit(unseen, ASSUMED_IO_W), "io").why.startswith("hardly any I/O was seen")


def test_what_background_io_draws_is_not_counted_twice() -> None:
    watts = {**TRUE_W, "io": ASSUMED_IO_W}
    made = [replace(point, kiops=0.01) for point in points(kiops=(0.0,), noise_w=0.0, watts=watts)]
    made = [replace(point, power_w=power_of(point, watts)) for point in made]
    found = fit(made, ASSUMED_IO_W)
    assert fitted(found, "rest").watts == pytest.approx(TRUE_W["rest"], abs=1e-9)


def test_a_coefficient_is_never_negative_and_says_so() -> None:
    found = fit(points(watts={**TRUE_W, "core": -0.5}), ASSUMED_IO_W)
    core = fitted(found, "core")
    assert core.watts == core.low_w == 0.0
    assert core.at_bound
    assert core.high_w >= 0.0


def test_idle_points_show_a_drift() -> None:
    steady, drifting = (fit(points(drift_w=w), ASSUMED_IO_W).drift for w in (0.0, 6.0))
    assert steady is not None
    assert not steady.matters
    assert drifting is not None
    assert drifting.matters
    assert drifting.watts == pytest.approx(6.0, abs=1.0)


def test_a_frozen_meter_gives_no_model() -> None:
    frozen = [replace(point, power_w=80.0) for point in points(kiops=(0.0,))]
    frozen = [replace(point, kiops=0.0) for point in frozen]
    with pytest.raises(CalibrationFailed, match="80 W at every setting"):
        fit(frozen, ASSUMED_IO_W)


def test_too_few_points_give_no_model() -> None:
    with pytest.raises(CalibrationFailed, match="too few"):
        fit(points()[:2], ASSUMED_IO_W)
    with pytest.raises(CalibrationFailed, match="5 points with a power are too few for 4"):
        fit(points(kiops=(0.0,))[:5], ASSUMED_IO_W)
    silent = [replace(point, power_w=None) for point in points()]
    with pytest.raises(CalibrationFailed, match="too few points for any model: 0"):
        fit(silent, ASSUMED_IO_W)


@settings(max_examples=50)
@given(
    st.integers(0, 1000),
    st.tuples(st.floats(20.0, 90.0), *[st.floats(0.0, 50.0)] * 5),
    st.sampled_from([(1.0,), (0.5, 1.0)]),
    st.sampled_from([(4,), (1, 4)]),
    st.sampled_from([(0.0,), (0.0, 10.0)]),
)
def test_a_fit_holds_together(
    seed: int,
    watts: tuple[float, ...],
    phis: tuple[float, ...],
    cores: tuple[int, ...],
    kiops: tuple[float, ...],
) -> None:
    true_w = dict(zip(TRUE_W, watts, strict=True))
    made = points(phis=phis, cores=cores, kiops=kiops, watts=true_w, noise_w=0.3, seed=seed)
    found = fit(made, ASSUMED_IO_W)
    # With a constant term off its bound, a fit explains no less than the mean alone does.
    assert -1e-9 <= found.r_squared <= 1.0
    for coefficient in found.coefficients.values():
        assert coefficient.watts >= 0.0
        if isinstance(coefficient, Fitted):
            assert coefficient.low_w <= coefficient.watts <= coefficient.high_w
    model_w = [
        power_of(point, {name: c.watts for name, c in found.coefficients.items()})
        for point in found.points
    ]
    measured_w = [point.power_w or 0.0 for point in found.points]
    assert np.allclose(np.subtract(measured_w, model_w), found.residuals_w, atol=1e-6)
