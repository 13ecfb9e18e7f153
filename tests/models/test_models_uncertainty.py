"""Intervals: how they are drawn from, reconciled with known runs, and what they say of a choice."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from wattio.errors import InputError
from wattio.models import advice, parameter, posterior, scenario
from wattio.models.approach import Approach, parse
from wattio.models.observed import Observed
from wattio.models.parameter import Parameter, central
from wattio.models.scalability import Form, Points

from models.scenarios import APPLICATION, known, platform

ENERGY = advice.parse_objective("energy")


def test_measured_is_normal_on_either_side() -> None:
    one = Parameter("x", 10, 8, 14, "measured")
    drawn = one.quantile(np.array([0.025, 0.5, 0.975]))
    assert drawn == pytest.approx([8, 10, 14])


def test_measured_that_is_above_zero_stays_above_zero() -> None:
    drawn = Parameter("x", 2.3, 0.7, 7, "measured").quantile(np.linspace(0, 1, 1001))
    assert drawn.min() > 0
    around = Parameter("x", 0.0, -0.1, 0.1, "measured", least=-1).quantile(np.array([0.025, 0.5]))
    assert around == pytest.approx([-0.1, 0])


def test_assumed_is_even_or_even_over_orders_of_magnitude() -> None:
    shares = np.array([0.0, 0.5, 1.0])
    assert Parameter("x", 3, 2, 6, "assumed").quantile(shares) == pytest.approx([2, 4, 6])
    assert Parameter("x", 3, 1, 100, "assumed").quantile(shares) == pytest.approx([1, 10, 100])


@given(
    st.tuples(*[st.floats(0, 1e6)] * 3).map(sorted),
    st.sampled_from(parameter.ORIGINS),
    st.lists(st.floats(0, 1), min_size=2, max_size=9).map(sorted),
)
@example([2.6e-302, 5.4e-205, 1.0], "measured", [0.0, 1.0])
def test_quantiles_rise_and_stay_possible(
    ends: list[float], origin: parameter.Origin, shares: list[float]
) -> None:
    one = Parameter("x", ends[1], ends[0], ends[2], origin)
    drawn = one.quantile(np.array(shares))
    assert (np.diff(drawn) >= -1e-9 * ends[2]).all()
    assert (drawn >= 0).all()
    assert np.isfinite(drawn).all()


def test_an_interval_holds_its_value() -> None:
    with pytest.raises(ValueError, match="does not contain"):
        Parameter("x", 1, 2, 3, "assumed")
    with pytest.raises(ValueError, match="leaves"):
        Parameter("x", 1, -2, 3, "assumed")


def test_draws_are_seeded_and_each_parameter_has_its_own() -> None:
    a, b = Parameter("a", 2, 1, 3, "assumed"), Parameter("b", 2, 1, 3, "assumed")
    first, second = parameter.draw([a], 50, 1), parameter.draw([b, a], 50, 1)
    assert (first["a"] == second["a"]).all()
    assert (second["a"] != second["b"]).any()
    assert (first["a"] != parameter.draw([a], 50, 2)["a"]).any()


def test_the_sampler_finds_a_known_distribution() -> None:
    """Two even parameters under a correlated normal likelihood: moments are those of the normal."""
    parameters = [Parameter(name, 0.5, 0, 1, "assumed") for name in ("x", "y")]
    inverse = np.linalg.inv([[0.0025, 0.0020], [0.0020, 0.0025]])

    def log_likelihood(values: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        off = np.stack([values["x"] - 0.4, values["y"] - 0.6])
        return np.asarray(-np.einsum("in,ij,jn->n", off, inverse, off) / 2)

    found = posterior.sample(parameters, log_likelihood, 8000, 3)
    drawn, best = found.values, found.best
    covariance = np.cov(drawn["x"], drawn["y"])
    assert drawn["x"].mean() == pytest.approx(0.4, abs=0.005)
    assert drawn["y"].mean() == pytest.approx(0.6, abs=0.005)
    assert covariance == pytest.approx(np.array([[0.0025, 0.0020], [0.0020, 0.0025]]), rel=0.15)
    assert -0.01 < best <= 0


def test_how_good_a_chain_is_is_told() -> None:
    parameters = [Parameter("x", 0.5, 0, 1, "assumed")]
    found = posterior.sample(parameters, lambda values: -((values["x"] - 0.5) ** 2) * 50, 100, 1)
    assert found.sampling is not None
    kept = (1 - posterior.BURN_IN) * found.sampling.steps
    times = kept / found.sampling.autocorrelation_steps
    assert times >= posterior.TIMES_LEAST
    assert found.sampling.effective == pytest.approx(posterior.WALKERS * times, rel=0.01)
    again = posterior.sample(parameters, lambda values: -((values["x"] - 0.5) ** 2) * 50, 100, 1)
    assert (again.values["x"] == found.values["x"]).all()


def test_a_chain_that_has_not_converged_tells_no_interval() -> None:
    wide = Parameter("base_s", 8, 2, 32, "assumed")
    machine = platform(base_s=wide)
    runs = [Observed(parse("tp"), APPLICATION, 0.02, time_s=300)]
    with pytest.raises(InputError, match="have not converged after 60 steps"):
        posterior.condition(machine, runs, 100, 1, steps_most=60)


def test_discrepancy_widens_each_prediction_in_its_own_way() -> None:
    machine = platform(discrepancy=known("discrepancy", 0.1))
    values = parameter.draw(machine.parameters, 4000, 1)
    times = []
    for text in ("tp", "dc:1"):
        plain = scenario.predict(parse(text), machine, APPLICATION, values)
        found = scenario.discrepant(plain, APPLICATION, values, 1)
        times.append(np.log(found.time_s / plain.time_s))
        assert found.power_w_mean == pytest.approx(plain.power_w_mean)
    assert [time.std() for time in times] == pytest.approx([0.1, 0.1], rel=0.05)
    assert abs(np.corrcoef(np.stack(times))[0, 1]) < 0.05


def test_dumps_that_cost_the_same_whatever_they_hold() -> None:
    exponent = known("size_exponent", 0.0)
    machine = replace(platform(size_exponent=exponent), dump_bytes=APPLICATION.output_bytes)
    larger = replace(APPLICATION, output_bytes=8 * APPLICATION.output_bytes)
    values = central(machine.parameters)
    first, second = (
        scenario.predict(parse("tp"), machine, a, values).time_s for a in (APPLICATION, larger)
    )
    assert first == second
    values = {**values, "size_exponent": 1.0}
    by_bytes = scenario.predict(parse("tp"), machine, larger, values).time_s
    assert by_bytes == scenario.predict(parse("tp"), platform(), larger, values).time_s > first


def test_a_known_run_narrows_what_it_depends_on() -> None:
    wide = Parameter("base_s", 8, 2, 32, "assumed")
    machine = platform(base_s=wide)
    truth = scenario.predict(parse("tp"), machine, APPLICATION, central(machine.parameters))
    runs = [Observed(parse("tp"), APPLICATION, 0.02, time_s=float(truth.time_s))]
    drawn = posterior.condition(machine, runs, 2000, 1).values["base_s"]
    assert np.quantile(drawn, 0.025) < 8 < np.quantile(drawn, 0.975)
    assert np.ptp(drawn) < 8


def test_known_runs_outside_and_reversed_orders_are_told() -> None:
    """Of known runs of the document one lay outside, and an order was reversed: nobody was told."""
    machine = platform(base_s=Parameter("base_s", 8, 7.9, 8.1, "assumed"))
    values = parameter.draw(machine.parameters, 500, 1)
    times = {
        text: float(np.median(scenario.predict(parse(text), machine, APPLICATION, values).time_s))
        for text in ("tp", "dc:1", "dn:7")
    }
    less, more = sorted(("tp", "dn:7"), key=lambda text: times[text])
    known = {**times, less: 1.5 * times[more]}
    runs = [Observed(parse(t), APPLICATION, 0.5, time_s=known[t]) for t in known]
    runs.append(Observed(parse("tp"), replace(APPLICATION, output_every=20), 0.02, hidden=True))
    found = advice.of_draws(
        machine, APPLICATION, ENERGY, [parse("tp"), parse("dc:1")], values, 1, runs
    ).agreement
    assert (found.runs, found.inside) == (4, 2)
    told = [(str(one.run.approach), one.quantity) for one in found.outside]
    assert told == [(less, "time_s"), ("tp", "waiting_share")]
    assert (parse(more), parse(less)) in {
        (a.run.approach, b.run.approach) for a, b in found.reversed
    }


def test_runs_that_no_draw_explains_are_refused() -> None:
    machine = platform(base_s=Parameter("base_s", 8, 7, 9, "assumed"))
    runs = [Observed(parse("tp"), APPLICATION, 0.02, time_s=1e6)]
    with pytest.raises(InputError, match="do not contain its observed runs"):
        posterior.condition(machine, runs, 100, 1)


def test_without_intervals_the_first_place_is_sure() -> None:
    found = advice.advise(platform(), APPLICATION, ENERGY, draws=1000)
    assert found.first.first_share == 1
    assert found.worth == ()
    energies = [one.energy_j.estimate for one in found.ranked]
    assert energies == sorted(energies)
    assert all(one.energy_j.low == one.energy_j.high for one in found.ranked)
    assert found.untold == []


def test_what_decides_is_what_to_measure() -> None:
    """Whether TP beats DC here rests on the rate of storage alone; power scales both alike."""
    wide = platform(
        storage_bytes_s=Parameter("storage_bytes_s", 4e8, 1e8, 2e10, "assumed"),
        client_bytes_s=1e12,
        power_max_w=Parameter("power_max_w", 200, 100, 300, "assumed"),
    )
    chosen = [Approach("tp"), Approach("dc", 1)]
    found = advice.advise(wide, APPLICATION, ENERGY, chosen, draws=5000)
    assert 0.5 <= found.first.first_share < 0.95
    assert [worth.parameter.name for worth in found.worth] == ["storage_bytes_s"]
    assert found.worth[0].first_share > 0.97
    assert found.first.energy_ratio.low == found.first.energy_ratio.high == 1
    # Either may take less energy, and that is said of the other one.
    assert found.untold == [found.ranked[1]]


def test_the_objective_decides() -> None:
    """Waiting at no power makes TP cheap, not fast."""
    machine = platform(blocked_share=0.0, cores=2)
    chosen = [Approach("tp"), Approach("dc", 1)]
    slow = replace(APPLICATION, output_bytes=2.0**33)
    names = {}
    for text in ("energy", "time", "edp:9"):
        found = advice.advise(machine, slow, advice.parse_objective(text), chosen, draws=1000)
        names[text] = str(found.first.prediction.approach)
    assert names == {"energy": "tp", "time": "dc:1", "edp:9": "dc:1"}


def test_advice_is_for_the_application_that_was_profiled() -> None:
    with pytest.raises(InputError, match='profiled with "app"'):
        advice.advise(platform(), replace(APPLICATION, name="other"), ENERGY)
    with pytest.raises(InputError, match="at most once"):
        advice.advise(platform(), APPLICATION, ENERGY, [Approach("tp")] * 2)


@given(st.text(max_size=12))
def test_no_text_breaks_the_reading_of_an_objective(text: str) -> None:
    with contextlib.suppress(InputError):
        assert advice.parse_objective(text).name == text


def test_speedups_between_measured_points() -> None:
    speedups = [known(f"s{at}", value) for at, value in ((1, 1.0), (2, 2.2), (4, 3.0))]
    points = Points("cores", [1, 2, 4], speedups)
    values = central(points.parameters)
    assert [points.speedup(count, values) for count in (1, 2, 3, 4)] == pytest.approx(
        [1, 2.2, 2.6, 3]
    )
    with pytest.raises(InputError, match="from 1 to 4"):
        points.speedup(5, values)


def test_a_form_without_a_speedup_is_refused() -> None:
    form = Form(Parameter("cores_sigma", -0.2, -0.4, 0, "assumed", least=-1))
    assert form.speedup(2, {"cores_sigma": -0.2}) == pytest.approx(2.5)
    with pytest.raises(InputError, match=r"above -0\.333"):
        form.speedup(4, {"cores_sigma": -0.2})
