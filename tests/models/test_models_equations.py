"""Both models against their equations written out slowly, and what must hold for any numbers."""

from __future__ import annotations

import contextlib
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.hpcio import topology
from wattio.hpcio.config import Config, parse_approach
from wattio.models import advice, document, extended, scenario
from wattio.models.advice import parse_objective
from wattio.models.approach import Approach, Resources, parse, resources, usual
from wattio.models.parameter import central
from wattio.models.scenario import Application

from models.scenarios import APPLICATION, CENTRAL, CENTRAL_STRATEGY, WHOLE_STRATEGY, platform

APPROACHES = ["tp", "dc:1", "dc:2", "dn:3", "dn:7"]
approaches = st.sampled_from(APPROACHES)


def reference(text: str, v: dict[str, float], app: Application) -> tuple[float, float]:
    """Seconds and joules of a run on 8 nodes of 4 cores, step by step, in the design's letters."""
    n_all, c_all = 8, 4
    kind, _, number = text.partition(":")
    if kind == "dn":
        dn = n_all // (int(number) + 1)
        n, c, w = n_all - dn, c_all, dn * c_all
    elif kind == "dc":
        dn, n, c = 0, n_all, c_all - int(number)
        w = n_all * int(number)
    else:
        dn, n, c, w = 0, n_all, c_all, n_all * c_all
    f = c / (1 + 0.05 * (c - 1))
    g = n / (1 + 0.01 * (n - 1))
    t_c = app.output_every * v["base_s"] / (f * g)
    t_c += v.get("make_s_per_gib", 0) * app.output_bytes / 2**30 / (n * c)
    b = v["storage_bytes_s"] / (1 + v["contention"] * max(0, w - v["free_writers"]))
    t_io = app.output_bytes / min(w * v["client_bytes_s"], b)
    p_max, phi = v["power_max_w"], v["blocked_share"]
    p_idle = v["idle_share"] * p_max
    if kind == "tp":
        t_io += v.get("leave_s", 0)
        t, e = t_c + t_io, n_all * p_max * (t_c + phi * t_io)
    elif kind == "dc":
        t = max(t_c, t_io) + v["copy_s_per_gib"] * app.output_bytes / 2**30 / n_all
        saved = v.get("asleep_share", 0) * int(number) / c_all * (p_max - p_idle)
        e = n_all * ((p_max - saved) * t_c + p_max * phi * (t - t_c))
    else:
        t = max(t_c, t_io) + v["send_s_per_gib"] * app.output_bytes / 2**30 / dn
        e = n * p_max * (t_c + phi * (t - t_c))
        e += dn * t * (p_max - v.get("asleep_share", 0.5) * (p_max - p_idle))
    k = app.iterations // app.output_every
    return k * t, k * e


@given(text=approaches, numbers=WHOLE_STRATEGY)
def test_the_model_is_its_equations(text: str, numbers: dict[str, float]) -> None:
    machine = platform()
    values = central(machine.parameters) | numbers
    found = scenario.predict(parse(text), machine, APPLICATION, values)
    seconds, joules = reference(text, numbers, APPLICATION)
    assert found.time_s == pytest.approx(seconds, rel=1e-9)
    assert found.energy_j == pytest.approx(joules, rel=1e-9)
    assert found.power_w_mean == pytest.approx(joules / seconds, rel=1e-9)


@given(text=approaches, numbers=CENTRAL_STRATEGY)
def test_what_holds_for_any_numbers(text: str, numbers: dict[str, float]) -> None:
    machine = platform()
    values = central(machine.parameters) | numbers
    found = scenario.predict(parse(text), machine, APPLICATION, values)
    hidden_s = found.time_s - found.blocked_s
    none = {"contention": 0.0, "copy_s_per_gib": 0.0, "send_s_per_gib": 0.0}
    free = {"client_bytes_s": 1e18, "storage_bytes_s": 1e18} | none
    least = scenario.predict(parse(text), machine, APPLICATION, values | free)
    assert found.blocked_s >= -1e-9 * found.time_s
    assert hidden_s == pytest.approx(least.time_s, rel=1e-6)
    assert found.energy_j >= least.energy_j * (1 - 1e-9)
    assert 0 < found.power_w_mean <= 8 * values["power_max_w"] * (1 + 1e-9)


@given(text=approaches, numbers=WHOLE_STRATEGY, factor=st.floats(1, 10))
def test_more_data_is_never_faster_nor_cheaper(
    text: str, numbers: dict[str, float], factor: float
) -> None:
    machine = platform()
    values = central(machine.parameters) | numbers
    more = Application("app", 100, 10, APPLICATION.output_bytes * factor)
    before = scenario.predict(parse(text), machine, APPLICATION, values)
    after = scenario.predict(parse(text), machine, more, values)
    assert after.time_s >= before.time_s * (1 - 1e-12)
    assert after.energy_j >= before.energy_j * (1 - 1e-12)


@given(text=approaches.filter(lambda text: text != "tp"), numbers=CENTRAL_STRATEGY)
def test_without_io_it_is_the_document_s_model(text: str, numbers: dict[str, float]) -> None:
    free = {"client_bytes_s": 1e18, "storage_bytes_s": 1e18, "contention": 0.0}
    free |= {"copy_s_per_gib": 0.0, "send_s_per_gib": 0.0}
    machine = platform()
    values = central(machine.parameters) | numbers | free
    ours = scenario.predict(parse(text), machine, APPLICATION, values)
    profile = document.Profile(
        numbers["base_s"],
        lambda k: 1 / (1 + 0.05 * (k - 1)),
        lambda k: 1 / (1 + 0.01 * (k - 1)),
        numbers["idle_share"] * numbers["power_max_w"],
        numbers["power_max_w"],
    )
    theirs = document.estimate(parse(text), profile, 8, 4, 100)
    assert theirs is not None
    assert ours.time_s == pytest.approx(theirs.time_s, rel=1e-6)
    assert ours.energy_j == pytest.approx(theirs.energy_j, rel=1e-6)


def test_the_document_s_equations_by_hand() -> None:
    assert document.time_s(2520, 18.1, 24, 0.5, 16, 0.25) == pytest.approx(2520 * 18.1 / 48)
    assert document.dedicated_nodes_power_w(30, 2, 100, 200) == pytest.approx(6300 / 32)
    assert document.dedicated_cores_power_w(200) == 200
    assert document.energy_j(32, 10, 200) == 64_000
    profile = document.Profile(1, lambda _: 1, lambda _: 1, 1, 2)
    assert document.estimate(Approach("tp"), profile, 8, 4, 1) is None


def test_arrays_are_predicted_one_by_one() -> None:
    machine = platform()
    values = {name: np.array([value, 2 * value]) for name, value in CENTRAL.items()}
    values |= {"cores_sigma": np.array([0.05, 0.05]), "nodes_sigma": np.array([0.01, 0.01])}
    for text in APPROACHES:
        both = scenario.predict(parse(text), machine, APPLICATION, values)
        for at in (0, 1):
            one = {name: float(array[at]) for name, array in values.items()}
            alone = scenario.predict(parse(text), machine, APPLICATION, one)
            assert np.asarray(both.energy_j)[at] == pytest.approx(alone.energy_j)


@given(text=approaches, numbers=CENTRAL_STRATEGY, make=st.floats(0, 1000), leave=st.floats(0, 100))
def test_what_a_dump_takes_of_the_simulation(
    text: str, numbers: dict[str, float], make: float, leave: float
) -> None:
    machine = platform()
    numbers = numbers | {"make_s_per_gib": make, "leave_s": leave}
    values = central(machine.parameters) | numbers
    found = scenario.predict(parse(text), machine, APPLICATION, values)
    seconds, joules = reference(text, numbers, APPLICATION)
    assert found.time_s == pytest.approx(seconds, rel=1e-9)
    assert found.energy_j == pytest.approx(joules, rel=1e-9)


def test_bandwidth_rises_with_writers_then_falls() -> None:
    rates = [float(extended.bandwidth(w, 50.0, 400.0, 0.05, 4.0)) for w in (1, 4, 8, 16, 64)]
    assert rates == pytest.approx([50, 200, 400 / 1.2, 400 / 1.6, 100])


def test_steps_after_the_last_dump_count() -> None:
    machine = platform()
    values = central(machine.parameters)
    whole = scenario.predict(parse("tp"), machine, APPLICATION, values)
    longer = Application("app", 105, 10, APPLICATION.output_bytes)
    found = scenario.predict(parse("tp"), machine, longer, values)
    assert found.blocked_s == pytest.approx(whole.blocked_s)
    assert found.time_s > whole.time_s


@pytest.mark.parametrize(
    ("text", "nodes", "cores", "expected"),
    [
        ("tp", 32, 4, Resources(32, 4, 0, 0, 128)),
        ("dc:2", 32, 4, Resources(32, 2, 0, 2, 64)),
        ("dn:15", 32, 4, Resources(30, 4, 2, 0, 8)),
        ("dn:7", 16, 24, Resources(14, 24, 2, 0, 48)),
        ("dn:7", 2, 4, Resources(1, 4, 1, 0, 4)),
    ],
)
def test_resources(text: str, nodes: int, cores: int, expected: Resources) -> None:
    assert resources(parse(text), nodes, cores) == expected
    assert expected.nodes == nodes


@pytest.mark.parametrize(
    ("text", "nodes", "cores"), [("dc:4", 8, 4), ("dc:1", 8, 1), ("dn:7", 1, 4)]
)
def test_what_leaves_nothing_to_compute_with_is_refused(text: str, nodes: int, cores: int) -> None:
    with pytest.raises(InputError, match="allowed"):
        resources(parse(text), nodes, cores)


def test_writers_are_those_of_the_middleware() -> None:
    """A dedicated core without anybody to write for is no writer."""
    for nodes, cores, text in product(range(2, 7), range(2, 6), ("tp", "dc:1", "dc:3", "dn:1")):
        with contextlib.suppress(InputError):
            used = resources(parse(text), nodes, cores)
            config = Config(**parse_approach(text))
            roles = topology.plan(config, topology.emulated(nodes * cores, cores))
            assert used.writers == len(set(roles.writer_of.values()))
            assert used.compute_nodes * used.compute_cores == len(roles.computing)


def test_usual_approaches_differ() -> None:
    assert [str(one) for one in usual(8, 4)] == ["tp", "dc:1", "dc:2", "dn:7"]
    assert [str(one) for one in usual(9, 4)][3:] == ["dn:8", "dn:7"]
    assert [str(one) for one in usual(2, 4)][3:] == ["dn:1"]
    given = [parse("dn:15"), parse("dn:7")]
    with pytest.raises(InputError, match="dn:15 and dn:7 are the same on 8 nodes"):
        advice.advise(platform(nodes=8), APPLICATION, parse_objective("time"), given, draws=1000)
    assert advice.advise(platform(nodes=9), APPLICATION, parse_objective("time"), given, draws=1000)


def test_usual_approaches_are_possible() -> None:
    for nodes in (1, 2, 5, 32):
        for cores in (1, 2, 4):
            for approach in usual(nodes, cores):
                assert resources(approach, nodes, cores).compute_cores >= 1
    assert [str(one) for one in usual(32, 4)] == ["tp", "dc:1", "dc:2", "dn:15", "dn:7"]
    assert [one.title for one in usual(32, 4)][1:4] == ["DC(ONE)", "DC(TWO)", "DN(15:1)"]


@given(st.text(max_size=30))
def test_no_text_breaks_the_reading_of_an_approach(text: str) -> None:
    with contextlib.suppress(InputError):
        assert str(parse(text)) == text
