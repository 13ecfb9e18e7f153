"""What power costs over a year: energy, money and carbon dioxide by stated factors."""

from __future__ import annotations

from dataclasses import dataclass

from wattio import _core

YEAR_H = _core.YEAR_H
"""Hours of a mean year: 365.25 days."""


@dataclass(frozen=True)
class Year:
    """Energy, its price and its carbon dioxide, each of a year."""

    kwh: float
    eur: float
    co2_t: float


@dataclass(frozen=True)
class Price:
    """What a kilowatt-hour costs, and how much is drawn by the building for each watt of load.

    The factors are round assumptions of the order of European industry (price) and grids (CO2);
    whoever reports names his own. A PUE of 1 counts the servers alone.
    """

    electricity_eur_per_kwh: float = 0.25
    co2_g_per_kwh: float = 350.0
    pue: float = 1.0

    def year(self, power_w: float) -> Year:
        """A year at this mean power, in watts; negative where more is drawn than before."""
        kwh = power_w * self.pue * YEAR_H / 1000
        return Year(kwh, kwh * self.electricity_eur_per_kwh, kwh * self.co2_g_per_kwh / 1e6)

    @property
    def stated(self) -> str:
        """The factors, for whoever reads figures made with them."""
        return (
            f"A year is {YEAR_H:g} h like these, at {self.electricity_eur_per_kwh:g} EUR and"
            f" {self.co2_g_per_kwh:g} g of CO\N{SUBSCRIPT TWO} for a kWh, with {self.pue:g} W drawn"
            " by the building for each watt of a server."
        )
