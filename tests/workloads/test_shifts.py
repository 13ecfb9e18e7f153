"""Whose work a rank looks at: another client's, and each rank's by just one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.workloads.ranks import shifts

CLIENTS = st.integers(1, 40)
RANKS = st.integers(1, 8)


@given(clients=CLIENTS, each=RANKS, by=st.integers(1, 60))
def test_the_rank_in_its_place_so_many_clients_further(clients: int, each: int, by: int) -> None:
    size = clients * each
    for rank in range(size):
        found = shifts.owner(rank, size, each, True, by, 0)
        client, place = rank // each, rank % each
        assert (found // each, found % each) == ((client + by) % clients, place)
        assert shifts.owner(rank, size, each, False, by, 0) == rank


@given(clients=CLIENTS, each=RANKS, seed=st.integers(0, 2**63 - 1))
def test_one_that_is_drawn_is_of_another_client(clients: int, each: int, seed: int) -> None:
    size = clients * each
    found = [shifts.owner(rank, size, each, "random", 1, seed) for rank in range(size)]
    assert sorted(found) == list(range(size))
    if clients > 1:
        assert all(one // each != rank // each for rank, one in enumerate(found))


@pytest.mark.parametrize(("by", "found"), [(1, [1, 2, 3, 0]), (3, [3, 0, 1, 2])])
def test_the_thesis_shifts_by_one(by: int, found: list[int]) -> None:
    """Rank n + 1 mod m reads what rank n wrote (001, chapter 6.1), so n reads n - 1's, or n + 1's.

    IOR's -C has rank n read what rank n + 1 wrote; either way it is a neighbour's.
    """
    assert [shifts.owner(rank, 4, 1, True, by, 0) for rank in range(4)] == found
