"""Latency histograms: merging, percentiles and exceedance.

A histogram is two arrays of the same length: `edge` (upper edges of buckets, ascending, in the
quantity's unit) and `count`. Only buckets that hold something need be there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Edges = NDArray[np.float64]
Counts = NDArray[np.uint64]


@dataclass(frozen=True)
class WindowHistograms:
    """Histograms of many windows, flattened.

    Window i has the buckets `offsets[i]:offsets[i + 1]` of `edge` and `count`; `offsets` is one
    longer than there are windows.
    """

    offsets: NDArray[np.uint64]
    edge: Edges
    count: Counts

    @property
    def windows(self) -> int:
        """How many windows there are."""
        return len(self.offsets) - 1

    def merged(self) -> tuple[Edges, Counts]:
        """One histogram of all windows: edges ascending, counts summed."""
        return merge([(self.edge, self.count)])

    def matrix(self, starts: NDArray[np.int64]) -> tuple[Edges, NDArray[np.float64]]:
        """Edges (m) and counts (stretches x m), for sums over any selection of stretches.

        `starts` holds the first window of each stretch, ascending from 0; each lasts to the next
        one, the last one to the end. No row is made for each window: a day has many.
        """
        begins = self.offsets.astype(np.int64)
        ends = [*begins[starts[1:]].tolist(), int(begins[-1])]
        parts = [slice(*pair) for pair in zip(begins[starts].tolist(), ends, strict=True)]
        each = [np.unique(self.edge[part]) for part in parts]
        edge = np.unique(np.concatenate(each)) if each else np.empty(0)
        matrix = np.zeros((len(parts), edge.size))
        for row, part in enumerate(parts):
            column = np.searchsorted(edge, self.edge[part])
            np.add.at(matrix[row], column, self.count[part].astype(np.float64))
        return edge, matrix


def merge(histograms: Sequence[tuple[Edges, Counts]]) -> tuple[Edges, Counts]:
    """Add histograms up. Counts of equal edges are summed; no bucket is split or moved."""
    if not histograms:
        return np.empty(0), np.empty(0, dtype=np.uint64)
    edges = np.concatenate([edge for edge, _ in histograms])
    counts = np.concatenate([count for _, count in histograms])
    merged, column = np.unique(edges, return_inverse=True)
    total = np.zeros(merged.size, dtype=np.uint64)
    np.add.at(total, column, counts.astype(np.uint64))
    return merged, total


def percentile(edge: Edges, count: NDArray[np.generic], share: float) -> float | None:
    """The smallest edge at or below which at least `share` (0 to 1) of all values lie.

    None for an empty histogram. Raises ValueError for a share outside 0 to 1. This is the
    definition of hdrhistogram: the bucket of the value with rank max(1, ceil(share * n)).
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share {share} is not in 0 to 1")
    cumulative = np.cumsum(count.astype(np.float64))
    if cumulative.size == 0 or cumulative[-1] == 0:
        return None
    rank = max(1.0, math.ceil(share * cumulative[-1]))
    return float(edge[int(np.searchsorted(cumulative, rank))])


def meant(shares: Mapping[str, float], values: float) -> dict[str, float]:
    """Those of named shares that mean something of so many values.

    Beyond 99.9 % that is only where one of the values lies above.
    """
    return {
        name: share
        for name, share in shares.items()
        if share <= 0.999 or math.ceil(share * values) < values
    }


def percentiles(
    edge: Edges, count: NDArray[np.generic], shares: Mapping[str, float]
) -> dict[str, float]:
    """Percentiles of a histogram that mean something, by their names; none of an empty one."""
    found = {
        name: percentile(edge, count, share)
        for name, share in meant(shares, float(np.sum(count))).items()
    }
    return {name: value for name, value in found.items() if value is not None}


def exceedance(edge: Edges, count: Counts) -> tuple[Edges, NDArray[np.float64]]:
    """Share of values above each edge (complementary distribution); same length as `edge`."""
    cumulative = np.cumsum(count.astype(np.float64))
    if cumulative.size == 0 or cumulative[-1] == 0:
        return edge[:0], np.empty(0)
    return edge, 1 - cumulative / cumulative[-1]
