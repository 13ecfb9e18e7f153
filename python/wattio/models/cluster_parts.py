"""The parts of a cluster with so many draws of their rates, and what they allow its clients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wattio.analysis.cluster import Achieved
from wattio.analysis.peak import Kind, Peak, Quantity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Draws = NDArray[np.float64]

Bound = Literal["network", "device", "memory", "processor", "software"]
"""What can bound a cluster."""

CLIENT_LINKS = "clients' links"
LABELS: Mapping[Kind, tuple[str, Bound]] = {
    "network": ("servers' links", "network"),
    "disk": ("devices", "device"),
    "memory": ("clients' memory", "memory"),
}
BOUND_OF: dict[str, Bound] = {
    **dict(LABELS.values()),
    CLIENT_LINKS: "network",
    "servers' processors": "processor",
}


class Cluster:
    """The parts of a peak, with so many draws of their rates."""

    def __init__(self, peak: Peak, draws: int, seed: int) -> None:
        """Draw every part of every quantity once: all phases are held against the same draws."""
        self.peak = peak
        self.draws = draws
        self._seed = seed
        self._sums: dict[Quantity, dict[tuple[str, Kind], Draws]] = {}

    def sums(self, quantity: Quantity) -> dict[tuple[str, Kind], Draws]:
        """The drawn sums of the units of a kind in all nodes of a name."""
        if quantity not in self._sums:
            self._sums[quantity] = self._drawn(quantity)
        return self._sums[quantity]

    def _drawn(self, quantity: Quantity) -> dict[tuple[str, Kind], Draws]:
        found: dict[tuple[str, Kind], Draws] = {}
        for place, part in enumerate(self.peak.parts):
            rate = part.rates.get(quantity)
            if rate is None:
                continue
            mean = part.units * rate.mean
            drawn = np.full(self.draws, mean)
            if rate.deviation:
                generator = np.random.default_rng(
                    (self._seed, place, *map(ord, quantity.direction))
                )
                spread = math.sqrt(part.units) * rate.deviation
                # No part is slower than a thousandth of what was measured.
                drawn = np.maximum(generator.normal(mean, spread, self.draws), 1e-3 * mean)
            key = part.node, part.kind
            found[key] = found[key] + drawn if key in found else drawn
        return found

    def servers(
        self,
        quantity: Quantity,
        stored_share: float,
        factors: Mapping[tuple[str, Kind], float] | None = None,
    ) -> dict[Kind, Draws]:
        """What links and devices allow clients, by the rule of the peak, with parts so much faster.

        By the rule `nodes` their least is the sum over nodes of the lesser of both; it stands under
        the kind that limits the most of it, in each draw.
        """
        sums = {
            key: value * (factors or {}).get(key, 1.0) / stored_share
            for key, value in self.sums(quantity).items()
            if key[1] != "memory"
        }
        totals: dict[Kind, Draws] = {}
        for (_, kind), value in sums.items():
            totals[kind] = totals[kind] + value if kind in totals else value
        if self.peak.rule == "thesis" or len(totals) < 2:
            return totals
        least = np.zeros(self.draws)
        limited = {kind: np.zeros(self.draws) for kind in totals}
        for node in dict.fromkeys(node for node, _ in sums):
            own: list[tuple[Kind, Draws]] = [
                (kind, value) for (of, kind), value in sums.items() if of == node
            ]
            smallest = np.minimum.reduce([value for _, value in own])
            least += smallest
            for kind, value in own:
                limited[kind] += np.where(value == smallest, smallest, 0.0)
        most = np.maximum.reduce(list(limited.values()))
        return {kind: np.where(limited[kind] == most, least, totals[kind]) for kind in totals}

    def clients(self, achieved: Achieved) -> dict[str, Draws]:
        """What the memory and the links of a run's clients allow.

        A client is taken to have one link, as fast as the mean of the servers' links.
        """
        found: dict[str, Draws] = {}
        memory = self._mean_unit(achieved.quantity, "memory")
        if memory is not None:
            found[LABELS["memory"][0]] = achieved.clients * memory
        link = self.link(achieved)
        if link is not None:
            found[CLIENT_LINKS] = achieved.clients * link
        return found

    def link(self, achieved: Achieved) -> Draws | None:
        """What one client's link allows; None if the network is not known."""
        link = self._mean_unit(achieved.quantity, "network")
        return None if link is None else link / achieved.client_share

    def _mean_unit(self, quantity: Quantity, kind: Kind) -> Draws | None:
        own = [value for (_, of), value in self.sums(quantity).items() if of == kind]
        units = sum(p.units for p in self.peak.parts if p.kind == kind and quantity in p.rates)
        return np.add.reduce(own) / units if own else None

    def nodes(self, quantity: Quantity) -> int:
        """How many nodes have links or devices for a quantity."""
        known = {
            part.node: part.nodes
            for part in self.peak.parts
            if part.kind != "memory" and quantity in part.rates
        }
        return sum(known.values())


def least(parts: Mapping[Any, Draws]) -> Draws:
    """What the part that limits allows, draw by draw."""
    found: Draws = np.minimum.reduce(list(parts.values()))
    return found
