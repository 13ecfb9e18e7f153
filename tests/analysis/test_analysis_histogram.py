"""Merging and percentiles of histograms against the values written out one by one."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis.histogram import WindowHistograms, exceedance, merge, percentile

BUCKETS = st.dictionaries(
    st.integers(1, 40).map(float), st.integers(1, 30), min_size=1, max_size=12
)


def arrays(buckets: dict[float, int]) -> tuple[np.ndarray, np.ndarray]:
    edges = sorted(buckets)
    return np.array(edges), np.array([buckets[edge] for edge in edges], dtype=np.uint64)


def written_out(buckets: dict[float, int]) -> list[float]:
    return sorted(edge for edge, count in buckets.items() for _ in range(count))


@given(BUCKETS, st.floats(0, 1))
def test_percentile_is_the_value_of_that_rank(buckets: dict[float, int], share: float) -> None:
    values = written_out(buckets)
    rank = max(1, math.ceil(share * len(values)))
    assert percentile(*arrays(buckets), share) == values[rank - 1]


@given(BUCKETS)
def test_percentiles_never_fall(buckets: dict[float, int]) -> None:
    found = [percentile(*arrays(buckets), share / 20) for share in range(21)]
    assert found == sorted(value for value in found if value is not None)


@given(st.lists(BUCKETS, min_size=1, max_size=5))
def test_merged_histograms_hold_the_values_of_all(parts: list[dict[float, int]]) -> None:
    edge, count = merge([arrays(part) for part in parts])
    everything = sorted(value for part in parts for value in written_out(part))
    merged = written_out(dict(zip(edge.tolist(), count.tolist(), strict=True)))
    assert merged == everything


@given(BUCKETS)
def test_exceedance_counts_what_lies_above(buckets: dict[float, int]) -> None:
    values = written_out(buckets)
    edge, above = exceedance(*arrays(buckets))
    for latency, share in zip(edge.tolist(), above.tolist(), strict=True):
        slower = sum(value > latency for value in values) / len(values)
        assert math.isclose(share, slower, abs_tol=1e-12)


def test_nothing_has_no_percentile() -> None:
    empty = merge([])
    assert percentile(*empty, 0.99) is None
    assert exceedance(*empty)[1].size == 0


def test_matrix_rows_are_stretches_of_windows() -> None:
    windows = WindowHistograms(
        np.array([0, 2, 2, 3], dtype=np.uint64),
        np.array([1.0, 3.0, 1.0]),
        np.array([5, 6, 7], dtype=np.uint64),
    )
    edge, matrix = windows.matrix(np.array([0, 1, 2]))
    assert edge.tolist() == [1, 3]
    assert matrix.tolist() == [[5, 6], [0, 0], [7, 0]]
    for starts, sums in (([0, 2], [[5, 6], [7, 0]]), ([0, 1], [[5, 6], [7, 0]]), ([0], [[12, 6]])):
        edge, matrix = windows.matrix(np.array(starts))
        assert edge.tolist() == [1, 3]
        assert matrix.tolist() == sums
    nothing = WindowHistograms(np.zeros(3, dtype=np.uint64), np.empty(0), np.empty(0, np.uint64))
    assert nothing.matrix(np.array([0, 1]))[1].shape == (2, 0)
    assert windows.merged()[1].tolist() == [12, 6]


def test_a_day_of_windows_needs_no_row_for_each() -> None:
    """A matrix of windows and buckets took gigabytes."""
    count, edges, each = 200_000, 4_000, 5
    draw = np.random.default_rng(1)
    edge = np.sort(draw.integers(1, edges + 1, (count, each)), axis=1).ravel().astype(np.float64)
    offsets = np.arange(count + 1, dtype=np.uint64) * each
    windows = WindowHistograms(offsets, edge, np.ones(count * each, dtype=np.uint64))
    starts = np.arange(0, count, -(-count // 1200))
    tracemalloc.start()
    found, matrix = windows.matrix(starts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6
    assert matrix.shape == (len(starts), found.size)
    assert matrix.sum() == count * each
