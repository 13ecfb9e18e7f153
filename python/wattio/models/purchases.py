"""What could be bought for a cluster: `wattio advise cluster --purchases`.

[[purchase]]
name = "links of 2.5 Gbit/s"
part = "network"
node = "data"
faster = 2.5
price_eur = 25.0                  # of each link
power = "1.5 W"                   # that each draws more than now

[[purchase]]
name = "one more node"
node = "data"
more_nodes = 1
price_eur = 225.0                 # of each node, with its devices
power = "7 W"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, model_validator

from wattio.analysis.peak import QUANTITIES, Kind, Part, Peak
from wattio.files import document
from wattio.files.document import Document, Strict, nearest
from wattio.files.quantity import Watts


class PurchaseEntry(Strict):
    """`[[purchase]]`: faster units, more of them in each node, or more nodes; one of the three."""

    name: str = Field(min_length=1, max_length=200)  # what advice calls it
    part: Kind | None = None  # what there would be more of, or faster; not with more_nodes
    node: str | None = None  # in which nodes; all that have the part where nothing is given
    # So many times as fast as now, each unit.
    faster: float | None = Field(default=None, gt=1, allow_inf_nan=False)
    more_per_node: int | None = Field(default=None, ge=1, le=10**6)  # units more in each node
    more_nodes: int | None = Field(default=None, ge=1, le=10**6)  # nodes more, with all their parts
    price_eur: float | None = Field(default=None, gt=0, allow_inf_nan=False)  # of each unit or node
    power: Watts | None = None  # more than now, of each unit or node
    how: str = ""  # where price and power are known from

    @model_validator(mode="after")
    def _one_of(self) -> PurchaseEntry:
        given = [self.faster, self.more_per_node, self.more_nodes]
        if sum(one is not None for one in given) != 1:
            raise ValueError("give one of faster, more_per_node and more_nodes")
        if (self.more_nodes is None) == (self.part is None):
            raise ValueError("part is for faster and more_per_node, not for more_nodes")
        if self.part == "memory" and self.node is None:
            raise ValueError('part = "memory" is the clients\': give their node')
        return self


class PurchasesFile(Strict):
    """Purchases to choose from."""

    purchase: list[PurchaseEntry] = Field(min_length=1)


@dataclass(frozen=True)
class Purchase:
    """A purchase for a certain cluster: by which factor sums grow, and what all of it costs.

    `factors` are by node and kind. `power_w` is what the cluster draws more; price and power are
    None if they are not known.
    """

    name: str
    factors: dict[tuple[str, Kind], float]
    units: int
    price_eur: float | None
    power_w: float | None
    more_nodes: bool = False


def from_document(source: Document) -> PurchasesFile:
    """The checked content of a file, for whatever cluster. Raises InputError."""
    found = document.validate(PurchasesFile, source)
    names = [entry.name for entry in found.purchase]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise source.error(("purchase", place, "name"), f'"{name}" is named twice')
    return found


def read(path: Path, peak: Peak) -> list[Purchase]:
    """Purchases for the cluster of a peak. Raises InputError, also for parts that it has not."""
    source = document.read(path)
    found = []
    nodes = list(dict.fromkeys(part.node for part in peak.parts))
    for place, entry in enumerate(from_document(source).purchase):
        if entry.node is not None and entry.node not in nodes:
            message = f'the peak has no node "{entry.node}"; {nearest(entry.node, nodes)}'
            raise source.error(("purchase", place, "node"), message)
        bought = of_entry(entry, peak)
        if not bought.factors:
            where = f' of node "{entry.node}"' if entry.node else ""
            raise source.error(("purchase", place), f"the peak has no {entry.part}{where}")
        found.append(bought)
    return found


def of_entry(entry: PurchaseEntry, peak: Peak) -> Purchase:
    """An entry for the cluster of a peak; without factors where the cluster has no such part."""
    parts = [
        part
        for part in peak.parts
        if entry.node in (None, part.node)
        and entry.part in (None, part.kind)
        # Clients are no nodes of the cluster: they are bought by their name alone.
        and (part.kind != "memory" or entry.node is not None)
    ]
    factors: dict[tuple[str, Kind], float] = {}
    units = 0
    for node, kind in dict.fromkeys((part.node, part.kind) for part in parts):
        # Parts of one kind in one node, such as two makes of disk, or of different quantities.
        own = [part for part in parts if (part.node, part.kind) == (node, kind)]
        nodes = own[0].nodes
        each = _per_node(own)
        if entry.faster is not None:
            factors[node, kind] = entry.faster
            units += each * nodes
        elif entry.more_per_node is not None:
            factors[node, kind] = (each + entry.more_per_node) / each
            units += entry.more_per_node * nodes
        elif entry.more_nodes is not None:
            factors[node, kind] = (nodes + entry.more_nodes) / nodes
    if entry.more_nodes is not None:
        units = entry.more_nodes * len({node for node, _ in factors})
    return Purchase(
        entry.name,
        factors,
        units,
        None if entry.price_eur is None else entry.price_eur * units,
        None if entry.power is None else entry.power * units,
        entry.more_nodes is not None,
    )


def _per_node(parts: Sequence[Part]) -> int:
    """Units of one kind in each node: of several makes the sum, of one measured twice the same."""
    return max(
        sum(part.per_node for part in parts if quantity in part.rates) for quantity in QUANTITIES
    )
