"""The atmosphere at rest, and the bubble in it.

An isentropic, hydrostatic dry atmosphere (Bryan and Fritsch, Monthly Weather Review 130, 2002,
section 3, has the same base state), and a warm bubble that is moister than the air around it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattio.miniapp.domain import HALO, Block, Domain

Array = NDArray[np.float64]

GRAVITY_M_S2 = 9.81
THETA_K = 300.0
"""Potential temperature of the atmosphere at rest."""

_GAS_J_KG_K = 287.04
_HEAT_J_KG_K = 1004.5
_GAMMA = _HEAT_J_KG_K / (_HEAT_J_KG_K - _GAS_J_KG_K)
_SURFACE_PA = 1e5

SOUND_M_S: float = (_GAMMA * _GAS_J_KG_K * THETA_K) ** 0.5
"""Speed of sound at the floor, where it is highest."""

BUBBLE_K = 2.0
"""Excess of potential temperature in the bubble's middle, as in Bryan and Fritsch (2002)."""

BUBBLE_MOISTURE = 1e-3
"""Excess of the mixing ratio of water vapour in its middle, kg/kg; it is carried, and does not
condense."""

_MOISTURE = 1e-2
"""Mixing ratio at the floor, falling linearly to zero at the lid."""

_BUBBLE_RADIUS_SHARE = 0.2
_BUBBLE_HEIGHT_SHARE = 0.25


@dataclass(frozen=True)
class Base:
    """The atmosphere at rest, level by level, with the halo's mirror images below and above.

    `density` in kg/m3; `stiffness` is the change of pressure for a change of density times
    potential temperature, Pa per (kg K/m3).
    """

    density: Array
    stiffness: Array


def base(domain: Domain) -> Base:
    """The atmosphere at rest at the middles of cells.

    Exner function 1 - g z / (c_p theta); p = p0 Exner^(c_p/R); rho = p / (R theta Exner). The
    stiffness is dp/d(rho theta) = gamma p / (rho theta) at rest: the equation of state, linearised.
    """
    z_m = (np.arange(domain.nz) + 0.5) * domain.spacing_m
    exner = 1.0 - GRAVITY_M_S2 * z_m / (_HEAT_J_KG_K * THETA_K)
    pressure = _SURFACE_PA * exner ** (_HEAT_J_KG_K / _GAS_J_KG_K)
    density: Array = pressure / (_GAS_J_KG_K * THETA_K * exner)
    stiffness = _GAMMA * pressure / (density * THETA_K)
    return Base(np.pad(density, HALO, mode="symmetric"), np.pad(stiffness, HALO, mode="symmetric"))


def step_s(domain: Domain) -> float:
    """A time step that is stable: 0.8 of the most that sound allows.

    Centred differences of sound on a staggered grid have frequencies up to 2 c sqrt(3) / dx, and
    the three-stage scheme is stable up to sqrt(3) of a frequency's inverse (Wicker and Skamarock,
    Monthly Weather Review 130, 2002, table 1).
    """
    return 0.8 * 0.5 * domain.spacing_m / SOUND_M_S


def bubble(domain: Domain, block: Block) -> Array:
    """The bubble's shape on a block's cells, 1 in its middle and 0 outside: (1 - (r/R)^2)^2.

    A polynomial, so that every cell comes out the same in whatever array it stands.
    """
    height_m = domain.nz * domain.spacing_m
    radius = _BUBBLE_RADIUS_SHARE * height_m
    x = _from_middle(domain.nx, block.x, block.nx) * domain.spacing_m
    y = _from_middle(domain.ny, block.y, block.ny) * domain.spacing_m
    z = (np.arange(domain.nz) + 0.5) * domain.spacing_m - _BUBBLE_HEIGHT_SHARE * height_m
    across = (x / radius)[:, None, None] ** 2 + (y / radius)[None, :, None] ** 2
    inside: Array = np.maximum(1.0 - (across + (z / radius)[None, None, :] ** 2), 0.0)
    return inside * inside


def moisture(domain: Domain) -> Array:
    """Mixing ratio of water vapour at rest, level by level, kg/kg."""
    found: Array = _MOISTURE * (1.0 - (np.arange(domain.nz) + 0.5) / domain.nz)
    return found


def _from_middle(cells: int, begin: int, count: int) -> Array:
    """Distances of cells from the middle of the domain, in cells: exact, and so symmetric."""
    return np.arange(begin, begin + count, dtype=np.float64) + (0.5 - cells / 2)
