"""Sizes of the mini-app, and how its ranks share the domain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.miniapp.domain import (
    HALO,
    SIZES,
    Arrangement,
    Domain,
    arrange,
    block_of,
    scaled,
)


def test_sizes_have_the_bytes_that_they_claim() -> None:
    told = [98e3, 3.1e6, 25e6, 151e6, 373e6]
    assert [domain.dump_bytes() for domain in SIZES.values()] == pytest.approx(told, rel=0.02)
    assert round(SIZES["document"].dump_bytes() / 1e6) == 373
    assert SIZES["small"].dump_bytes(3) * 2 == SIZES["small"].dump_bytes()


@given(ranks=st.integers(1, 400))
def test_arrangement_is_as_square_as_it_can_be(ranks: int) -> None:
    found = arrange(ranks)
    assert found.ranks == ranks
    assert found.across >= found.along
    assert not any(ranks % n == 0 for n in range(found.along + 1, int(ranks**0.5) + 1))


@given(
    across=st.integers(1, 9),
    along=st.integers(1, 9),
    nx=st.integers(HALO * 9, 60),
    ny=st.integers(HALO * 9, 60),
)
def test_blocks_cover_every_column_once(across: int, along: int, nx: int, ny: int) -> None:
    domain, arrangement = Domain(nx, ny, 4, 1.0), Arrangement(across, along)
    blocks = [block_of(domain, arrangement, rank) for rank in range(arrangement.ranks)]
    seen = [(x, y) for b in blocks for x in range(b.x, b.x + b.nx) for y in range(b.y, b.y + b.ny)]
    assert len(seen) == nx * ny == len(set(seen))
    assert max(b.nx for b in blocks) - min(b.nx for b in blocks) <= 1
    assert min(min(b.nx, b.ny) for b in blocks) >= HALO


def test_neighbours_know_each_other() -> None:
    arrangement = Arrangement(3, 2)
    for rank in range(6):
        column, row = arrangement.place(rank)
        assert arrangement.rank_at(column, row) == rank
        assert arrangement.rank_at(column + 3, row - 2) == rank


def test_too_many_ranks_are_refused() -> None:
    with pytest.raises(InputError, match=r"36 computing ranks \(6 x 6\) are too many for 16 x 16"):
        block_of(SIZES["tiny"], arrange(36), 0)


def test_weak_scaling_gives_each_rank_the_size() -> None:
    arrangement = Arrangement(3, 2)
    domain = SIZES["tiny"]
    assert scaled(domain, "strong", arrangement) == domain
    grown = scaled(domain, "weak", arrangement)
    assert grown.cells == 6 * domain.cells
    assert {block_of(grown, arrangement, rank).nx for rank in range(6)} == {16}
