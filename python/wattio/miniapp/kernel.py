"""How the atmosphere changes: the compressible equations without friction, in flux form.

With rho = base density + r, velocities u, v, w and theta = 300 K + t, and everything but velocities
at the middles of cells (Arakawa's C grid):

    d r       / dt = - div(rho u)
    d (rho u) / dt = - div(rho u u) - grad p - g r        p = stiffness * (rho t + 300 K r)
    d (rho t) / dt = - div(rho u t)
    d (rho q) / dt = - div(rho u q)

The atmosphere at rest has dropped out of them exactly, as its potential temperature is the same
everywhere: without a bubble nothing ever moves. What leaves a cell enters its neighbour by the
same number, so mass, rho t and rho q are conserved to round-off. Fluxes are of third order, upwind,
as Wicker and Skamarock's (Monthly Weather Review 130, 2002, equation 4).

Operations are grouped so that a mirrored field gives the mirrored change bit for bit: differences
change their sign exactly, and sums are of pairs that a mirror swaps.
"""

from __future__ import annotations

import numpy as np

from wattio.miniapp.atmosphere import GRAVITY_M_S2, THETA_K, Array, Base
from wattio.miniapp.domain import HALO

# Components of a state: the first axis of its array.
R, U, V, W, T, Q = range(6)
COMPONENTS = 6

X, Y, Z = range(3)
_MOMENTA = ((U, X), (V, Y), (W, Z))
_SCALARS = (T, Q)
_HALF = 0.5


def with_halo(nx: int, ny: int, nz: int) -> tuple[int, int, int, int]:
    """The shape of a block's state."""
    return COMPONENTS, nx + 2 * HALO, ny + 2 * HALO, nz + 2 * HALO


def mirror_at_ground_and_lid(state: Array) -> None:
    """Fill the halo below the floor and above the lid: no flow through them, free slip along them.

    A face's value stands at the cell above it.
    """
    top = state.shape[3] - HALO
    state[W, ..., HALO] = 0.0
    state[W, ..., top] = 0.0
    for depth in range(HALO):
        low, high = HALO - 1 - depth, top + depth
        state[:W, ..., low] = state[:W, ..., HALO + depth]
        state[:W, ..., high] = state[:W, ..., top - 1 - depth]
        state[T:, ..., low] = state[T:, ..., HALO + depth]
        state[T:, ..., high] = state[T:, ..., top - 1 - depth]
        state[W, ..., low] = -state[W, ..., HALO + 1 + depth]
        if depth + 1 < HALO:
            state[W, ..., high + 1] = -state[W, ..., top - 1 - depth]


def tendencies(state: Array, base: Base, spacing_m: float) -> Array:
    """Changes per second of all components, on the cells inside the halo of a block or part of one.

    `state` has a filled halo; its vertical extent is the whole domain's.
    """
    density = state[R] + base.density
    mass = [state[component] for component, _ in _MOMENTA]
    pressure = base.stiffness * (state[T] + THETA_K * state[R])
    inner = tuple(size - 2 * HALO for size in density.shape)
    change = np.empty((COMPONENTS, *inner))
    flows = [_at(flow, axis) for axis, flow in enumerate(mass)]
    change[R] = _convergence(flows)
    for component in _SCALARS:
        value = state[component] / density
        fluxes = [_upwind(flow, value, axis) for axis, flow in enumerate(flows)]
        change[component] = _convergence(fluxes)
    for component, across in _MOMENTA:
        value = _velocity(state[component], density, across)
        fluxes = [
            _upwind(_HALF * (_at(flow, axis, (across, -1)) + _at(flow, axis)), value, axis)
            for axis, flow in enumerate(mass)
        ]
        change[component] = _convergence(fluxes)
        change[component] -= _at(pressure) - _at(pressure, None, (across, -1))
    change *= 1.0 / spacing_m
    buoyancy = _at(state[R], None, (Z, -1)) + _at(state[R])
    change[W] -= GRAVITY_M_S2 * _HALF * buoyancy
    change[W, ..., 0] = 0.0
    return change


def _at(values: Array, faces: int | None = None, *moves: tuple[int, int]) -> Array:
    """The cells inside the halo, moved along axes; with one more at the end of the axis `faces`."""
    shift = [0, 0, 0]
    for axis, cells in moves:
        shift[axis] += cells
    return values[
        tuple(
            slice(HALO + shift[axis], size - HALO + shift[axis] + (axis == faces))
            for axis, size in enumerate(values.shape)
        )
    ]


def _velocity(momentum: Array, density: Array, across: int) -> Array:
    """Momentum at faces over the density there; what lies on the halo's first face is not used."""
    found = np.empty_like(momentum)
    first, rest, before = ([slice(None)] * 3 for _ in range(3))
    first[across], rest[across], before[across] = slice(0, 1), slice(1, None), slice(None, -1)
    later, earlier = tuple(rest), tuple(before)
    found[tuple(first)] = 0.0
    found[later] = momentum[later] / (_HALF * (density[earlier] + density[later]))
    return found


def _upwind(flow: Array, value: Array, axis: int) -> Array:
    """The flux of a value through the faces of an axis, of third order.

    F = flow/12 [7 (b + c) - (a + d)] + |flow|/12 [(d - a) - 3 (c - b)], cells a, b | c, d around
    the face (Wicker and Skamarock 2002, equation 4).
    """
    a, b, c, d = (_at(value, axis, (axis, cells)) for cells in (-2, -1, 0, 1))
    found = 7.0 * (b + c)
    found -= a + d
    found *= flow
    slope = 3.0 * (c - b)
    np.subtract(d - a, slope, out=slope)
    slope *= np.abs(flow)
    found += slope
    found *= 1.0 / 12.0
    return found


def _convergence(fluxes: list[Array]) -> Array:
    """What enters less what leaves, over three axes: x and y first, which a turn swaps."""
    parts = []
    for axis, flux in enumerate(fluxes):
        later = [slice(None)] * 3
        earlier = [slice(None)] * 3
        later[axis], earlier[axis] = slice(1, None), slice(None, -1)
        parts.append(flux[tuple(earlier)] - flux[tuple(later)])
    found: Array = parts[X] + parts[Y]
    found += parts[Z]
    return found
