"""The fake PDU tells the truth about itself: its energy is the integral of its power."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meters.pdu import Load, steps
from meters.pdu_agent import Outlets

TIMES = st.lists(st.integers(0, 20), min_size=1, max_size=5).map(sorted)


@st.composite
def loads(draw: st.DrawFn) -> Load:
    times = draw(TIMES)
    return Load(tuple((float(at), float(draw(st.integers(0, 500)))) for at in times))


@given(loads(), st.integers(0, 25))
def test_energy_is_the_area_below_power(load: Load, until_s: int) -> None:
    # Knots are at whole seconds, so that the middles of equal slices add up to the area exactly.
    slices = [(number + 0.5) / 4 for number in range(4 * until_s)]
    area_j = math.fsum(load.power_w(at_s) / 4 for at_s in slices)
    assert load.energy_j(until_s) == pytest.approx(area_j, abs=1e-6)


def test_steps_change_at_once() -> None:
    load = steps((0.0, 100.0), (30.0, 180.0), (40.0, 60.0))
    assert [load.power_w(at_s) for at_s in (0, 29.9, 30, 39.9, 40, 99)] == [
        *(100.0, 100.0, 180.0),
        *(180.0, 60.0, 60.0),
    ]
    assert load.energy_j(50.0) == pytest.approx(30 * 100 + 10 * 180 + 10 * 60)


def test_outlet_0_is_all_of_them() -> None:
    outlets = Outlets((steps((0.0, 10.0)), steps((0.0, 5.0))), 10**9, 100.0)
    assert outlets.power_w(0, 3 * 10**9) == 15.0
    assert outlets.energy_j(0, 3 * 10**9) == pytest.approx(130.0)
    assert Outlets.from_plain(outlets.as_plain()) == outlets
