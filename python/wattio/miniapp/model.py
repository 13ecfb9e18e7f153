"""A block of the atmosphere that is stepped through time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wattio.miniapp import atmosphere, kernel
from wattio.miniapp.atmosphere import Array
from wattio.miniapp.domain import HALO, Block, Domain
from wattio.miniapp.halo import Halo

_STAGES = (1.0 / 3.0, 1.0 / 2.0, 1.0)
_TILE_CELLS = 1 << 14
"""Cells that are changed at once: few enough that their fields stay in a core's cache."""


class Model:
    """The state of one block: `state` is (component, x, y, z) with a halo on every side."""

    def __init__(self, domain: Domain, block: Block, halo: Halo | None = None) -> None:
        """The bubble at rest. The halo may be given later, as it may need the state's sizes."""
        self.domain = domain
        self.block = block
        self.base = atmosphere.base(domain)
        self.step_s = atmosphere.step_s(domain)
        self.halo = halo
        self.steps = 0
        self.state: Array = np.zeros(kernel.with_halo(block.nx, block.ny, domain.nz))
        self._next = np.zeros_like(self.state)
        self._stage = np.zeros_like(self.state)
        self._put_bubble()

    def _put_bubble(self) -> None:
        """Warm and moist air of the surroundings' pressure: it is lighter by its warmth.

        rho theta stays what it was, so that nothing bangs: rho = base density * 300 K / theta.
        """
        shape = atmosphere.bubble(self.domain, self.block)
        excess = atmosphere.BUBBLE_K * shape
        density_rest = self.base.density[HALO:-HALO]
        density = density_rest * (atmosphere.THETA_K / (atmosphere.THETA_K + excess))
        moisture = atmosphere.moisture(self.domain) + atmosphere.BUBBLE_MOISTURE * shape
        inner = self.inner
        inner[kernel.R] = density - density_rest
        inner[kernel.T] = density * excess
        inner[kernel.Q] = density * moisture

    @property
    def inner(self) -> Array:
        """The state without its halo: a view."""
        found: Array = self.state[:, HALO:-HALO, HALO:-HALO, HALO:-HALO]
        return found

    @property
    def density(self) -> Array:
        """Density of the block's cells, kg/m3."""
        found: Array = self.base.density[HALO:-HALO] + self.inner[kernel.R]
        return found

    def step(self) -> None:
        """One time step, by the three stages of Wicker and Skamarock (2002, equation 3)."""
        self._change(self.state, self._stage, _STAGES[0])
        self._change(self._stage, self._next, _STAGES[1])
        self._change(self._next, self._stage, _STAGES[2])
        self.state, self._stage = self._stage, self.state
        self.steps += 1

    def fill_halo(self, state: Array | None = None) -> None:
        """Fill the halo of the state, or of one in the making."""
        assert self.halo is not None
        target = self.state if state is None else state
        self.halo.fill(target)
        kernel.mirror_at_ground_and_lid(target)

    def _change(self, source: Array, target: Array, share: float) -> None:
        """`target` becomes the state after a share of the time step, changing as `source` says."""
        self.fill_halo(source)
        factor = share * self.step_s
        for x, y in self._tiles():
            seen = slice(x.start, x.stop + 2 * HALO), slice(y.start, y.stop + 2 * HALO)
            change = kernel.tendencies(source[:, *seen], self.base, self.domain.spacing_m)
            change *= factor
            inside = slice(x.start + HALO, x.stop + HALO), slice(y.start + HALO, y.stop + HALO)
            place = (slice(None), *inside, slice(HALO, -HALO))
            np.add(self.state[place], change, out=target[place])

    def _tiles(self) -> Iterator[tuple[slice, slice]]:
        """Parts of the block, each of about as many cells as fit a cache."""
        edge = max(8, round((_TILE_CELLS / self.domain.nz) ** 0.5))
        for x in range(0, self.block.nx, edge):
            for y in range(0, self.block.ny, edge):
                yield (
                    slice(x, min(x + edge, self.block.nx)),
                    slice(y, min(y + edge, self.block.ny)),
                )
