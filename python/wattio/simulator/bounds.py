"""Bounds on latency, and how a simulated run keeps them beside its native twin.

A bound is written as a statistic, a limit and a scope: "mean 20% run", "p99 2 ms window". A limit
in percent (or as a plain share) is relative to the twin, which met the same load at full speed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wattio import _core
from wattio.analysis import histogram
from wattio.errors import InputError
from wattio.simulator.policies import BOUND_BY
from wattio.simulator.simulation import Outcome, answered_share, answers_enough

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Bound:
    """A bound: `quantile` None bounds the mean; one of `share` and `limit_us` is set."""

    text: str
    statistic: str
    quantile: float | None
    share: float | None
    limit_us: float | None
    scope: Literal["run", "window"]

    @staticmethod
    def parse(text: str) -> Bound:
        """A bound as a user writes it. Raises InputError."""
        return Bound(**json.loads(_core.check_bound(text)))

    @staticmethod
    def several(texts: Iterable[str]) -> tuple[Bound, ...]:
        """Bounds as a user writes them. Raises InputError, also for one that is there twice."""
        bounds: list[Bound] = []
        for text in texts:
            bound = Bound.parse(text)
            if bound in bounds:
                raise InputError(f'the bound "{bound.text}" is given twice')
            bounds.append(bound)
        return tuple(bounds)

    @staticmethod
    def of_plf(plf: float) -> Bound:
        """The mean over the run, at most this share above native: what PACER's plf means."""
        return Bound.parse(f"mean {plf!r} run")

    def limit(self, native_us: Values) -> Values:
        """The limit in microseconds where native's statistic is `native_us`."""
        if self.share is None:
            return np.full_like(native_us, self.limit_us)
        return native_us * (1.0 + self.share)


def takes_bounds(policy: str) -> bool:
    """Whether a policy keeps the bounds that it is told: whatever has a plf does."""
    return policy == BOUND_BY or policy in _bounded()


@cache
def _bounded() -> frozenset[str]:
    tables = json.loads(_core.policies())
    return frozenset(
        name
        for name, table in tables.items()
        if any(parameter["name"] == "plf" for parameter in table["parameters"])
    )


def judge(bound: Bound, ours: Outcome, native: Outcome) -> dict[str, Any]:
    """How a run kept a bound. The keys of an entry of `bounds` in `wattio simulate --json`.

    `kept`: for the scope "run" by the statistic over the whole run, for "window" by every latency
    window; False if not `answered_enough`, as `answers_enough` has it; None if neither answered
    any. `worst`: the statistic over its limit in the worst window. `violation_share`: share of the
    windows above their limit. Windows count in which both runs answered requests.
    """
    run_us, native_us = (np.array([_of_run(bound, each)]) for each in (ours, native))
    count = min(len(ours.windows["start_s"]), len(native.windows["start_s"]))
    windows, twin = (_of_windows(bound, each)[:count] for each in (ours, native))
    both = ~(np.isnan(windows) | np.isnan(twin))
    ratios = windows[both] / bound.limit(twin[both])
    run_ratio = float((run_us / bound.limit(native_us))[0])
    over = float((ratios > 1.0).mean()) if ratios.size else None
    if bound.scope == "run":
        kept = None if np.isnan(run_ratio) else run_ratio <= 1.0
    else:
        kept = None if over is None else over == 0.0
    enough = answers_enough(ours, native)
    if not enough:
        kept = False
    return {
        "bound": bound.text,
        "statistic": bound.statistic,
        "limit": bound.share if bound.share is not None else bound.limit_us,
        "limit_unit": "1" if bound.share is not None else "us",
        "scope": bound.scope,
        "kept": kept,
        "run_ratio": None if np.isnan(run_ratio) else run_ratio,
        "worst": float(ratios.max()) if ratios.size else None,
        "violation_share": over,
        "answered_share": answered_share(ours.summary, native.summary),
        "answered_enough": enough,
    }


def _of_run(bound: Bound, outcome: Outcome) -> float:
    """The statistic over a whole run, in microseconds; NaN where nothing was answered."""
    if bound.quantile is None:
        mean_us = outcome.summary["latency_us_mean"]
        return float("nan") if mean_us is None else float(mean_us)
    return _percentile(*outcome.latency_histogram, bound.quantile)


def _of_windows(bound: Bound, outcome: Outcome) -> Values:
    """The statistic of each latency window, in microseconds; NaN where nothing was answered."""
    if bound.quantile is None:
        return outcome.windows["latency_us_mean"]
    offsets, edge, count = outcome.window_histograms
    begins = offsets.astype(np.int64)
    windows = itertools.pairwise(begins)
    each = [_percentile(edge[a:b], count[a:b], bound.quantile) for a, b in windows]
    return np.array(each, dtype=np.float64)


def _percentile(edge: Values, count: NDArray[np.uint64], quantile: float) -> float:
    found = histogram.percentile(edge, count, quantile)
    return float("nan") if found is None else found
