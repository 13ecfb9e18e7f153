"""Efficiency: work and capacity per power or energy, and energy-delay products."""

from __future__ import annotations

from collections.abc import Sequence

MIB = 1_048_576
"""Bytes in a MiB."""

TB = 1e12
"""Bytes in a terabyte, as drives are sold."""


def iops_per_watt(iops: float, power_w: float) -> float:
    """I/Os per second per watt, the same as I/Os per joule. Raises ValueError for power <= 0.

    Source: SNIA Emerald; PACER's IOPS/Watt.
    """
    _need_positive(power_w, "power in watts")
    return iops / power_w


def mib_per_joule(size_bytes: float, energy_j: float) -> float:
    """Mebibytes moved per joule, the same as MiB/s per watt. Raises ValueError for energy <= 0."""
    _need_positive(energy_j, "energy in joules")
    return size_bytes / MIB / energy_j


def rate_per_watt(rates: Sequence[float], powers_w: Sequence[float]) -> list[float]:
    """Rate over mean power, iteration by iteration: MiB/s or I/Os per second, per watt.

    The published figure is the mean of these, its error bar their standard deviation, which is
    not the ratio of the means. Raises ValueError for lists of different length, and power <= 0.
    Source: the thesis, section 6.5; Erxleben et al., section IV.
    """
    for power_w in powers_w:
        _need_positive(power_w, "power in watts")
    return [rate / power_w for rate, power_w in zip(rates, powers_w, strict=True)]


def capacity_tb_per_watt(raw_capacity_bytes: float, idle_power_w: float) -> float:
    """Raw capacity in terabytes (1e12 bytes) per watt of idle power. ValueError for power <= 0.

    Source: Erxleben et al., section IV.
    """
    _need_positive(idle_power_w, "idle power in watts")
    return raw_capacity_bytes / TB / idle_power_w


def data_rate_per_energy(size_bytes: float, time_s: float, energy_j: float) -> float:
    """Data rate over energy, in (MiB/s)/J: the data moved over the energy-delay product.

    Not data per energy (see `mib_per_joule`): the time counts twice. The document on HDD and SSD
    under frequency scaling prints this, times 1024, as "MB/J". Raises ValueError for time or
    energy <= 0.
    """
    _need_positive(time_s, "time in seconds")
    _need_positive(energy_j, "energy in joules")
    return size_bytes / MIB / energy_delay_product(energy_j, time_s)


def share_of_peak(rate: float, peak: float) -> float:
    """A rate as a share of the theoretical peak in the same unit; ValueError for a peak <= 0."""
    _need_positive(peak, "theoretical peak")
    return rate / peak


def energy_delay_product(energy_j: float, time_s: float, weight: int = 1) -> float:
    """Energy-delay product E t^w, in J s^w, for tasks of equal work.

    Raises ValueError for a weight below 1 or values below 0.
    Source: Erxleben's thesis, equation 6.1; Erxleben et al. 2022, equation 1.
    """
    if weight < 1:
        raise ValueError(f"weight {weight} is below 1")
    if energy_j < 0 or time_s < 0:
        raise ValueError("energy and time are never below 0")
    return float(energy_j * time_s**weight)


def normalised_to_least(values: Sequence[float]) -> list[float]:
    """Values divided by the least one, as energy-delay products are compared.

    Raises ValueError for no values or a least value that is not above 0.
    """
    if not values:
        raise ValueError("nothing to normalise")
    least = min(values)
    _need_positive(least, "least value")
    return [value / least for value in values]


def saving(power_w: float, reference_w: float) -> float:
    """Share of the reference's power that is saved: 1 - P / P_ref; below 0 where more is drawn."""
    _need_positive(reference_w, "reference power in watts")
    return 1 - power_w / reference_w


def captured_share(power_w: float, native_w: float, oracle_w: float) -> float | None:
    """Share of the oracle's saving that a policy captures: (E_n - E) / (E_n - E_o).

    Works for energies of equal spans as well. None if the oracle saves nothing worth the name
    (less than 0.1 % of native), because the ratio would be noise. Source: the oracle's definition.
    """
    possible_w = native_w - oracle_w
    if possible_w <= 1e-3 * native_w:
        return None
    return (native_w - power_w) / possible_w


def _need_positive(value: float, name: str) -> None:
    if not value > 0:
        raise ValueError(f"{name} must be above 0, not {value}")
