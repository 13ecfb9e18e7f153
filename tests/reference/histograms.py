"""Requests by latency: pairs of a bucket's upper edge in microseconds and the requests in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from reference.ieee import over

Histogram = tuple[tuple[float, int], ...]
"""Ascending by edge; the last edge may be infinite."""


def merged(histograms: Iterable[Sequence[tuple[float | None, int]]]) -> Histogram:
    """All requests by the edges that any of them has; an edge of None is infinite."""
    counts: dict[float, int] = {}
    for histogram in histograms:
        for told, requests in histogram:
            edge = math.inf if told is None else told
            counts[edge] = counts.get(edge, 0) + requests
    return tuple(sorted(counts.items()))


def requests_of(histogram: Histogram) -> int:
    return sum(requests for _, requests in histogram)


def quantile_within_us(histogram: Histogram, quantile: float) -> float | None:
    """The quantile, with the requests of a bucket taken as spread evenly over it."""
    rank = quantile * requests_of(histogram)
    for at, (edge, requests) in enumerate(histogram):
        below = requests_of(histogram[:at])
        if requests > 0 and below + requests >= rank:
            start = histogram[at - 1][0] if at > 0 else 0.0
            within = start + (edge - start) * (rank - below) / requests
            return within if math.isfinite(within) else None
    return None


def width_us(histogram: Histogram, quantile: float) -> float | None:
    """How wide the bucket of a quantile is."""
    rank = quantile * requests_of(histogram)
    for at, (edge, requests) in enumerate(histogram):
        if requests > 0 and requests_of(histogram[: at + 1]) >= rank:
            width = edge - (histogram[at - 1][0] if at > 0 else 0.0)
            return width if math.isfinite(width) else None
    return None


def spread(histogram: Histogram) -> float | None:
    """Standard deviation over mean, each request in the middle of its bucket.

    Requests beyond the last finite edge are left out; None where the histogram tells nothing.
    """
    finite = [bucket for bucket in histogram if math.isfinite(bucket[0])]
    starts = [0.0, *(edge for edge, _ in finite)]
    middles = [(start + edge) * 0.5 for start, (edge, _) in zip(starts, finite, strict=False)]
    counts = [float(requests) for _, requests in finite]
    total = sum(counts)
    mean = over(sum(m * n for m, n in zip(middles, counts, strict=True)), total)
    square = over(sum(m * m * n for m, n in zip(middles, counts, strict=True)), total)
    variance = over(square, mean * mean) - 1.0
    return math.sqrt(max(variance, 0.0)) if math.isfinite(variance) else None
