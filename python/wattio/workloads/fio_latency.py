"""Latencies in fio's output: its histograms, added up over jobs and clients without loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wattio.workloads.tolerant_json import count, number, table

if TYPE_CHECKING:
    from wattio.analysis.histogram import Counts, Edges

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
"""Names of the percentiles that results carry, with their share."""

_SUBMISSION_SHARE = 0.01
_NANOSECONDS_MOST = 1 << 63


@dataclass(frozen=True)
class Latency:
    """Latencies of one direction of a job, in nanoseconds.

    `bins` is fio's histogram: a value that stands for its bucket, and how many fell into it. It is
    there in `json+` only. `submission_share` is how much of the mean the bins leave out, where they
    are of completion latency.
    """

    samples: int = 0
    mean_ns: float | None = None
    least_ns: float | None = None
    most_ns: float | None = None
    bins: Mapping[int, int] | None = None
    submission_share: float = 0.0


def read_latency(part: Mapping[str, Any]) -> Latency:
    """The latencies of one direction.

    fio keeps bins of total latency with `lat_percentiles=1` only; else they are of the completion.
    """
    whole, completion = table(part.get("lat_ns")), table(part.get("clat_ns"))
    samples = count(whole.get("N")) or 0
    mean_ns = number(whole.get("mean"))
    if not samples or mean_ns is None:
        return Latency()
    bins, share = _bins(whole.get("bins")), 0.0
    if bins is None and (bins := _bins(completion.get("bins"))) is not None:
        submission_ns = number(table(part.get("slat_ns")).get("mean")) or 0.0
        share = submission_ns / mean_ns if mean_ns > 0 else 0.0
    least, most = number(whole.get("min")), number(whole.get("max"))
    return Latency(samples, mean_ns, least, most, bins, share)


def latency_us(parts: Sequence[Latency]) -> tuple[dict[str, float], list[str]]:
    """Mean, extremes and percentiles of all parts together, in microseconds; and doubts."""
    known = [(one.samples, one.mean_ns) for one in parts if one.mean_ns is not None]
    samples = sum(number_of for number_of, _ in known)
    if not samples:
        return {}, []
    found = {"mean": sum(number_of * mean_ns for number_of, mean_ns in known) / samples / 1e3}
    if least := [one.least_ns for one in parts if one.least_ns is not None]:
        found["min"] = min(least) / 1e3
    if most := [one.most_ns for one in parts if one.most_ns is not None]:
        found["max"] = max(most) / 1e3
    if any(one.bins is None for one in parts):
        return found, ["no percentiles: fio was not run with --output-format=json+"]
    found.update(_percentiles_us([one.bins for one in parts if one.bins is not None]))
    worst = max(one.submission_share for one in parts)
    if worst > _SUBMISSION_SHARE:
        return found, [
            f"percentiles are of completion latency, which leaves out {100 * worst:.0f} % of the"
            " mean; set lat_percentiles=1"
        ]
    return found, []


def _percentiles_us(bins: Sequence[Mapping[int, int]]) -> dict[str, float]:
    from wattio.analysis.histogram import merge, percentiles

    found = percentiles(*merge([_arrays(one) for one in bins]), PERCENTILES)
    return {name: value / 1e3 for name, value in found.items()}


def _arrays(bins: Mapping[int, int]) -> tuple[Edges, Counts]:
    import numpy as np

    return np.array(list(bins), np.float64), np.array(list(bins.values()), np.uint64)


def _bins(told: object) -> dict[int, int] | None:
    """fio's bins; None if there are none, or one cannot be understood."""
    if not isinstance(told, dict) or not told:
        return None
    bins: dict[int, int] = {}
    for key, value in told.items():
        how_many = count(value)
        if how_many is None or not key.isascii() or not key.isdigit() or len(key) > 19:
            return None
        if max(int(key), how_many) >= _NANOSECONDS_MOST:
            return None
        bins[int(key)] = how_many
    return bins
