"""The equations of the mini-app as they are written, cell by cell: slow, and easy to compare."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from wattio.miniapp.atmosphere import GRAVITY_M_S2, THETA_K, Base
from wattio.miniapp.domain import HALO
from wattio.miniapp.kernel import COMPONENTS, R, T, U, V, W

Array = NDArray[np.float64]
Cell = tuple[int, int, int]

MOMENTA = {U: 0, V: 1, W: 2}


def moved(cell: Cell, axis: int, steps: int) -> Cell:
    """A cell some steps further along an axis."""
    return tuple(at + steps * (number == axis) for number, at in enumerate(cell))  # type: ignore[return-value]


class Slow:
    """Values of a state with a filled halo; indices include it."""

    def __init__(self, state: Array, base: Base, spacing_m: float) -> None:
        self.state, self.base, self.spacing_m = state, base, spacing_m

    def density(self, cell: Cell) -> float:
        return float(self.base.density[cell[2]] + self.state[(R, *cell)])

    def pressure(self, cell: Cell) -> float:
        rho_theta = self.state[(T, *cell)] + THETA_K * self.state[(R, *cell)]
        return float(self.base.stiffness[cell[2]] * rho_theta)

    def carried(self, component: int, cell: Cell) -> float:
        """What a flux carries: a mixing ratio at a cell, or a velocity at its lower face."""
        if component not in MOMENTA:
            return float(self.state[(component, *cell)]) / self.density(cell)
        before = moved(cell, MOMENTA[component], -1)
        mean = (self.density(before) + self.density(cell)) / 2
        return float(self.state[(component, *cell)]) / mean

    def flux(self, component: int, cell: Cell, axis: int) -> float:
        """What enters the cell, or the cell around a momentum, through its lower face."""
        momentum = (U, V, W)[axis]
        flow = float(self.state[(momentum, *cell)])
        if component in MOMENTA:
            other = moved(cell, MOMENTA[component], -1)
            flow = (flow + float(self.state[(momentum, *other)])) / 2
        if component == R:
            return flow
        a, b, c, d = (self.carried(component, moved(cell, axis, n)) for n in (-2, -1, 0, 1))
        fourth_order = flow / 12 * (7 * (c + b) - (d + a))
        return fourth_order + abs(flow) / 12 * ((d - a) - 3 * (c - b))

    def tendency(self, component: int, cell: Cell) -> float:
        if component == W and cell[2] == HALO:
            return 0.0
        found = 0.0
        for axis in range(3):
            out = self.flux(component, moved(cell, axis, 1), axis)
            found -= (out - self.flux(component, cell, axis)) / self.spacing_m
        if component in MOMENTA:
            before = moved(cell, MOMENTA[component], -1)
            found -= (self.pressure(cell) - self.pressure(before)) / self.spacing_m
            if component == W:
                mean = (self.state[(R, *before)] + self.state[(R, *cell)]) / 2
                found -= GRAVITY_M_S2 * float(mean)
        return found


def tendencies(state: Array, base: Base, spacing_m: float) -> Array:
    """Changes per second of all components, inside the halo."""
    slow = Slow(state, base, spacing_m)
    nx, ny, nz = (size - 2 * HALO for size in state.shape[1:])
    found = np.empty((COMPONENTS, nx, ny, nz))
    for place in np.ndindex(*found.shape):
        cell = (place[1] + HALO, place[2] + HALO, place[3] + HALO)
        found[place] = slow.tendency(place[0], cell)
    return found
