"""What a dump holds: the variables of CM1's kind, in single precision, at the middles of cells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wattio.miniapp import kernel
from wattio.miniapp.atmosphere import THETA_K, Array
from wattio.miniapp.domain import HALO
from wattio.miniapp.model import Model

Output = NDArray[np.float32]


def write(model: Model, variable: str, target: Output) -> None:
    """Put a variable of `domain.VARIABLES` into an array of the block's cells.

    u, v, w in m/s (the mean of a cell's faces), theta in K and pressure in Pa (both as differences
    to the atmosphere at rest), moisture in kg/kg. The model's halo has to be filled.
    """
    _MAKERS[variable](model, target)


def _wind(component: int, axis: int) -> Callable[[Model, Output], None]:
    def make(model: Model, target: Output) -> None:
        momentum = model.state[component]
        edges = [slice(HALO, -HALO)] * 3
        low, high = tuple(edges), list(edges)
        high[axis] = slice(HALO + 1, momentum.shape[axis] - HALO + 1)
        _over_density(0.5 * (momentum[low] + momentum[tuple(high)]), model, target)

    return make


def _theta(model: Model, target: Output) -> None:
    _over_density(model.inner[kernel.T], model, target)


def _pressure(model: Model, target: Output) -> None:
    stiffness = model.base.stiffness[HALO:-HALO]
    np.multiply(
        stiffness,
        model.inner[kernel.T] + THETA_K * model.inner[kernel.R],
        out=target,
        casting="same_kind",
    )


def _moisture(model: Model, target: Output) -> None:
    _over_density(model.inner[kernel.Q], model, target)


def _over_density(values: Array, model: Model, target: Output) -> None:
    np.divide(values, model.density, out=target, casting="same_kind")


_MAKERS: dict[str, Callable[[Model, Output], None]] = {
    "u": _wind(kernel.U, kernel.X),
    "v": _wind(kernel.V, kernel.Y),
    "w": _wind(kernel.W, kernel.Z),
    "theta": _theta,
    "pressure": _pressure,
    "moisture": _moisture,
}
