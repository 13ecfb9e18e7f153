"""The mini-app's atmosphere: at rest it stays, mass is kept, the bubble rises and is symmetric."""

from __future__ import annotations

import math

import numpy as np
import pytest
from wattio.miniapp import atmosphere, checks, fields, kernel
from wattio.miniapp.domain import HALO, SIZES, VARIABLES, Arrangement, Block, Domain, block_of
from wattio.miniapp.halo import Periodic
from wattio.miniapp.model import Model

from .slow_equations import tendencies as slow_tendencies


def whole(domain: Domain) -> Model:
    """A model of the whole domain, without ranks."""
    model = Model(domain, Block(0, 0, domain.nx, domain.ny))
    model.halo = Periodic()
    return model


def total(model: Model, component: int) -> float:
    """The sum over all cells, rounded once."""
    return math.fsum(model.inner[component].flat)


@pytest.fixture(scope="module")
def risen() -> tuple[Model, Model]:
    """The tiny domain, at first and after 300 steps (173 s)."""
    domain = SIZES["tiny"]
    first, model = whole(domain), whole(domain)
    for _ in range(300):
        model.step()
    return first, model


def test_kernel_is_the_equations() -> None:
    domain = Domain(5, 4, 6, 100.0)
    model = whole(domain)
    random = np.random.default_rng(7)
    model.inner[:] = random.normal(size=model.inner.shape) * 0.1
    model.fill_halo()
    fast = kernel.tendencies(model.state, model.base, domain.spacing_m)
    slow = slow_tendencies(model.state, model.base, domain.spacing_m)
    for component in range(kernel.COMPONENTS):
        scale = np.abs(slow[component]).max()
        assert np.abs(fast[component] - slow[component]).max() <= 1e-13 * scale


def test_atmosphere_at_rest_never_moves() -> None:
    model = whole(SIZES["tiny"])
    model.inner[: kernel.Q] = 0.0
    for _ in range(5):
        model.step()
    assert not model.inner[: kernel.Q].any()


def test_mass_warmth_and_water_are_kept_to_round_off(risen: tuple[Model, Model]) -> None:
    first, model = risen
    mass = math.fsum(model.density.flat)
    assert abs(total(model, kernel.R) - total(first, kernel.R)) <= 1e-15 * mass
    for component in (kernel.T, kernel.Q):
        scale = math.fsum(np.abs(first.inner[component]).flat)
        assert abs(total(model, component) - total(first, component)) <= 1e-13 * scale


def test_bubble_rises(risen: tuple[Model, Model]) -> None:
    first, model = risen
    before, after = checks.of_block(first), checks.of_block(model)
    assert before.bubble_height_m == pytest.approx(0.25 * 8000, rel=0.05)
    assert after.bubble_height_m > before.bubble_height_m + 100
    assert 1 < after.wind_m_s_max < 20
    theta = model.inner[kernel.T] / model.density
    # Third order overshoots a little, and never blows up.
    assert theta.min() > -0.2
    assert theta.max() < 1.05 * atmosphere.BUBBLE_K


def test_bubble_stays_symmetric_bit_for_bit(risen: tuple[Model, Model]) -> None:
    _, model = risen
    state = model.inner
    for component in (kernel.R, kernel.W, kernel.T, kernel.Q):
        assert np.array_equal(state[component], state[component, ::-1])
        assert np.array_equal(state[component], state[component, :, ::-1])
        assert np.array_equal(state[component], state[component].swapaxes(0, 1))
    # A face's mirror image is one cell on: the first face is its own, over the domain's edge.
    u, v = state[kernel.U], state[kernel.V]
    assert np.array_equal(u[1:], -u[:0:-1])
    assert np.array_equal(v[:, 1:], -v[:, :0:-1])
    assert np.array_equal(u, v.swapaxes(0, 1))
    assert np.abs(u).max() > 0.5


def test_sound_has_its_speed() -> None:
    """A standing wave along x is as it was after its length over the speed of sound."""
    cells = 32
    domain = Domain(cells, 3, 3, 10.0)
    model = whole(domain)
    x = (np.arange(cells) + 0.5) / cells
    wave = 1e-6 * np.cos(2 * np.pi * x)[:, None, None] * np.ones((1, 3, 3))
    model.inner[:] = 0.0
    model.inner[kernel.R] = wave
    period_s = cells * domain.spacing_m / atmosphere.SOUND_M_S
    steps = round(period_s / model.step_s)
    model.step_s = period_s / steps
    for _ in range(steps):
        model.step()
    found = model.inner[kernel.R, :, 1, 1] @ wave[:, 1, 1] / (wave[:, 1, 1] @ wave[:, 1, 1])
    assert found == pytest.approx(1.0, abs=0.02)


def test_dump_holds_what_the_state_means(risen: tuple[Model, Model]) -> None:
    _, model = risen
    model.fill_halo()
    found = {name: np.empty(model.density.shape, dtype=np.float32) for name in VARIABLES}
    for name, target in found.items():
        fields.write(model, name, target)
    inner, density = model.inner, model.density
    assert np.allclose(found["theta"], inner[kernel.T] / density, rtol=1e-6, atol=1e-30)
    assert np.allclose(found["moisture"], inner[kernel.Q] / density, rtol=1e-6, atol=1e-30)
    x, y, z = 5, 9, 6
    u = (inner[kernel.U, x, y, z] + inner[kernel.U, x + 1, y, z]) / 2 / density[x, y, z]
    v = (inner[kernel.V, x, y, z] + inner[kernel.V, x, y + 1, z]) / 2 / density[x, y, z]
    assert found["u"][x, y, z] == pytest.approx(u, rel=1e-6)
    assert found["v"][x, y, z] == pytest.approx(v, rel=1e-6)
    rho_theta = inner[kernel.T] + atmosphere.THETA_K * inner[kernel.R]
    pressure = model.base.stiffness[HALO:-HALO] * rho_theta
    assert np.allclose(found["pressure"], pressure, rtol=1e-6, atol=1e-30)
    assert np.abs(found["w"][..., 8]).max() > 0


def test_fingerprint_tells_single_bits_and_places() -> None:
    first, second = whole(SIZES["tiny"]), whole(SIZES["tiny"])
    of_first = checks.of_block(first).fingerprint
    assert checks.of_block(second).fingerprint == of_first
    second.inner[kernel.T, 1, 2, 3] = np.nextafter(first.inner[kernel.T, 1, 2, 3], 1)
    assert checks.of_block(second).fingerprint != of_first
    turned = whole(SIZES["tiny"])
    turned.inner[kernel.T, :2, 0, 0] = [1.0, 2.0]
    first.inner[kernel.T, :2, 0, 0] = [2.0, 1.0]
    assert checks.of_block(turned).fingerprint != checks.of_block(first).fingerprint


@pytest.mark.parametrize("arrangement", [Arrangement(2, 1), Arrangement(2, 2), Arrangement(3, 2)])
def test_parts_begin_as_the_whole_does(arrangement: Arrangement) -> None:
    domain = SIZES["tiny"]
    blocks = [block_of(domain, arrangement, rank) for rank in range(arrangement.ranks)]
    parts = [checks.of_block(Model(domain, block)) for block in blocks]
    one = checks.of_block(whole(domain))
    every = checks.together(parts)
    assert every.fingerprint == one.fingerprint
    assert every.bubble_height_m == pytest.approx(one.bubble_height_m, rel=1e-12)
    assert sum(block.nx * block.ny for block in blocks) == domain.nx * domain.ny
