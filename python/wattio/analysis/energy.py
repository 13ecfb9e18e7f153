"""Energy accounting over windows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]


def total_energy_j(energy_j: Series) -> float:
    """Sum of the energies of windows, in joules; 0 for no window.

    Raises ValueError where a window has no energy (NaN): a sum over it would be a guess.
    """
    if np.isnan(energy_j).any():
        raise ValueError("a window without energy cannot be summed")
    return float(np.sum(energy_j))


def mean_power_w(energy_j: Series, span_s: Series) -> float:
    """Mean power over windows, in watts: total energy over total span.

    Raises ValueError where the windows span no time.
    """
    span_total_s = float(np.sum(span_s))
    if span_total_s <= 0:
        raise ValueError("mean power needs windows that span time")
    return total_energy_j(energy_j) / span_total_s


def balance_error(total_j: float, components_j: Mapping[str, float]) -> float:
    """Relative difference between a total and the sum of its components; 0 is a perfect balance.

    Relative to the larger of both; 0 where both are 0.
    """
    summed_j = float(sum(components_j.values()))
    scale = max(abs(total_j), abs(summed_j))
    return abs(total_j - summed_j) / scale if scale else 0.0
