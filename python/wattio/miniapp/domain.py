"""The grid: named sizes, scaling with the ranks, and which part of it each rank holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from wattio.errors import InputError

HALO = 3
"""Cells of its neighbours that a block sees on each side: as far as the kernel reaches."""

OUTPUT_BYTES = 4
"""Bytes of a cell of one variable in a dump: single precision, as CM1 writes."""

VARIABLES = ("u", "v", "w", "theta", "pressure", "moisture")
"""What a dump holds, in this order; fewer make it smaller."""

Scaling = Literal["strong", "weak"]


@dataclass(frozen=True)
class Domain:
    """A grid of nx x ny x nz cubic cells, periodic in x and y, with a floor and a lid."""

    nx: int
    ny: int
    nz: int
    spacing_m: float

    @property
    def shape(self) -> tuple[int, int, int]:
        """Cells in x, y, z."""
        return self.nx, self.ny, self.nz

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.nx * self.ny * self.nz

    def dump_bytes(self, variables: int = len(VARIABLES)) -> int:
        """The size of a dump of so many variables."""
        return self.cells * variables * OUTPUT_BYTES


SIZES = {
    "tiny": Domain(16, 16, 16, 500.0),
    "small": Domain(64, 64, 32, 250.0),
    "medium": Domain(128, 128, 64, 125.0),
    "large": Domain(256, 256, 96, 100.0),
    "document": Domain(432, 360, 100, 80.0),
}
"""Sizes by name. A dump of all variables has 98 kB, 3.1 MB, 25 MB, 151 MB, and for `document` the
373 MB of the CM1 runs of Dorier et al. 2016 (section 2.1.4); their grid is not told there."""


@dataclass(frozen=True)
class Arrangement:
    """Ranks in columns and rows over the domain: `across` in x, `along` in y."""

    across: int
    along: int

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.across * self.along

    def place(self, rank: int) -> tuple[int, int]:
        """Column and row of a rank; rows change first."""
        return rank // self.along, rank % self.along

    def rank_at(self, column: int, row: int) -> int:
        """The rank at a place; beyond an edge, that on the other side."""
        return column % self.across * self.along + row % self.along


@dataclass(frozen=True)
class Block:
    """The columns that a rank holds: where they begin in the domain, and how many there are."""

    x: int
    y: int
    nx: int
    ny: int


def scaled(domain: Domain, scaling: Scaling, arrangement: Arrangement) -> Domain:
    """The domain to compute: that of the size (strong), or one such block for each rank (weak)."""
    if scaling == "strong":
        return domain
    return replace(domain, nx=domain.nx * arrangement.across, ny=domain.ny * arrangement.along)


def arrange(ranks: int) -> Arrangement:
    """The squarest arrangement of so many ranks, with more of them in x."""
    along = max(n for n in range(1, int(ranks**0.5) + 1) if ranks % n == 0)
    return Arrangement(ranks // along, along)


def block_of(domain: Domain, arrangement: Arrangement, rank: int) -> Block:
    """The part of a rank; parts differ by one column at most.

    Raises InputError where a part would be narrower than the halo.
    """
    column, row = arrangement.place(rank)
    x, nx = _part(domain.nx, arrangement.across, column)
    y, ny = _part(domain.ny, arrangement.along, row)
    if min(domain.nx // arrangement.across, domain.ny // arrangement.along) < HALO:
        raise InputError(
            f"{arrangement.ranks} computing ranks ({arrangement.across} x {arrangement.along}) are"
            f" too many for {domain.nx} x {domain.ny} columns:"
            f" each needs {HALO} x {HALO} at least"
        )
    return Block(x, y, nx, ny)


def _part(cells: int, parts: int, number: int) -> tuple[int, int]:
    begin, end = cells * number // parts, cells * (number + 1) // parts
    return begin, end - begin
