"""What is known to be true of a run: sums over a block, and a number that tells states apart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattio.miniapp import kernel
from wattio.miniapp.model import Model

_WORD = 1 << 64


@dataclass(frozen=True)
class Sums:
    """Sums over cells, of a block or of the domain.

    `mass_kg` is of the difference to the atmosphere at rest, `rest_mass_kg` of that atmosphere;
    `warmth_k_m3` and `warmth_k_m4` are of the excess of potential temperature, and of its product
    with height; `water_kg` is of vapour. `wind_m_s_max` is the strongest updraught. `fingerprint`
    is a number of 64 bits that depends on every bit of the state, and not on how it is cut.
    """

    mass_kg: float
    rest_mass_kg: float
    warmth_k_m3: float
    warmth_k_m4: float
    water_kg: float
    wind_m_s_max: float
    fingerprint: int

    @property
    def bubble_height_m(self) -> float:
        """The height of the warmth's middle."""
        return self.warmth_k_m4 / self.warmth_k_m3


def of_block(model: Model) -> Sums:
    """The sums of a block."""
    inner = model.inner
    cell_m3 = model.domain.spacing_m**3
    density = model.density
    height_m = (np.arange(model.domain.nz) + 0.5) * model.domain.spacing_m
    theta = inner[kernel.T] / density
    return Sums(
        mass_kg=cell_m3 * float(inner[kernel.R].sum()),
        rest_mass_kg=cell_m3 * math.fsum((density - inner[kernel.R]).flat),
        warmth_k_m3=cell_m3 * float(theta.sum()),
        warmth_k_m4=cell_m3 * float((theta * height_m).sum()),
        water_kg=cell_m3 * float(inner[kernel.Q].sum()),
        wind_m_s_max=float((inner[kernel.W] / density).max()),
        fingerprint=_fingerprint(model),
    )


def together(parts: Iterable[Sums]) -> Sums:
    """Those of the domain."""
    every = list(parts)
    return Sums(
        mass_kg=math.fsum(part.mass_kg for part in every),
        rest_mass_kg=math.fsum(part.rest_mass_kg for part in every),
        warmth_k_m3=math.fsum(part.warmth_k_m3 for part in every),
        warmth_k_m4=math.fsum(part.warmth_k_m4 for part in every),
        water_kg=math.fsum(part.water_kg for part in every),
        wind_m_s_max=max(part.wind_m_s_max for part in every),
        fingerprint=sum(part.fingerprint for part in every) % _WORD,
    )


def _fingerprint(model: Model) -> int:
    """The sum, modulo 2^64, over all values: their bits, mixed with their place in the domain."""
    domain, block = model.domain, model.block
    x = np.arange(block.x, block.x + block.nx, dtype=np.uint64)[:, None, None]
    y = np.arange(block.y, block.y + block.ny, dtype=np.uint64)[None, :, None]
    z = np.arange(domain.nz, dtype=np.uint64)[None, None, :]
    place = (x * np.uint64(domain.ny) + y) * np.uint64(domain.nz) + z
    total = 0
    for component, values in enumerate(model.inner):
        # Adding zero makes -0.0 the same as 0.0, which it equals.
        bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
        mixed = _mix(bits ^ _mix(place + np.uint64(component * domain.cells)))
        total += int(mixed.sum(dtype=np.uint64))
    return total % _WORD


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, section 5)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
