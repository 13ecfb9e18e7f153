"""Which settings are visited in which order."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from wattio.calibration.design import IDLE_LEAST, Design

DESIGN = Design(
    frequencies_hz=(1e9, 2e9),
    cores=(1, 2, 4),
    loads=(0.0, 0.5, 1.0),
    with_io=True,
    repeat=2,
    seed=1,
    settle_s=2.0,
    measure_s=10.0,
)


def test_every_combination_is_visited_as_often_as_asked() -> None:
    settings = [setting for setting in DESIGN.settings() if not setting.is_idle]
    assert len(settings) == 2 * (2 * 3 * 3 + 3 * 2)
    assert all(settings.count(setting) == 2 for setting in settings)


def test_io_is_swept_at_full_speed_only() -> None:
    with_io = [setting for setting in DESIGN.settings() if setting.readers]
    assert {(s.frequency_hz, s.cores) for s in with_io} == {(2e9, 4)}


def test_the_order_is_drawn_from_the_seed() -> None:
    assert DESIGN.settings() == DESIGN.settings()
    assert DESIGN.settings() != replace(DESIGN, seed=2).settings()


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_idle_points_stand_all_over(
    frequencies: int, cores: int, loads: int, repeat: int, with_io: bool
) -> None:
    settings = replace(
        DESIGN,
        frequencies_hz=tuple(at * 1e9 for at in range(1, frequencies + 1)),
        cores=tuple(range(1, cores + 1)),
        loads=tuple(at / 4 for at in range(loads)),
        repeat=repeat,
        with_io=with_io,
    ).settings()
    idle = [at for at, setting in enumerate(settings) if setting.is_idle]
    assert idle[0] == 0
    assert idle[-1] == len(settings) - 1
    others = len(settings) - len(idle)
    assert len(idle) >= min(IDLE_LEAST, others + 1)
    assert max(b - a for a, b in itertools.pairwise(idle)) <= 6
