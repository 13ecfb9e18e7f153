"""A governor's windows as columns: what its samples hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattio.analysis.histogram import WindowHistograms
from wattio.kinds.governor.journal import Window
from wattio.results.states import STATE_OF, STATES

Columns = dict[str, NDArray[Any]]
"""The journal's keys, each with one value per window; absent numbers are NaN, absent texts None."""

NUMBERS = (
    "dt_s",
    "requests",
    "latency_us_mean",
    "latency_us_p99",
    "latency_us_seen",
    "baseline_us",
    "bound_us",
    "background_pace",
    "power_w_measured",
    "power_w_estimated",
    "power_w_full_speed_estimated",
)
"""Columns of one number per window."""

OF_GROUPS = ("cores", "frequency_hz", "utilisation_clients", "utilisation_background")
"""Lists with an entry for each group: one column `<name>_<group>` each."""


def misfit(window: Window, groups: Sequence[str]) -> str | None:
    """What is wrong with a window's lists; None if they fit the groups."""
    for name in OF_GROUPS:
        found = len(getattr(window, name))
        # A daemon that does not know a quantity at all leaves its list empty.
        if found != len(groups) and (found or name == "cores"):
            return f"{name}: has {found} entries, machine.json names {len(groups)} groups"
    return None


def columns(windows: Sequence[Window], first: int, groups: Sequence[str]) -> Columns:
    """Windows as columns; `first` is the number of the first one, counted from 0."""
    found: Columns = {
        "window": np.arange(first, first + len(windows), dtype=np.int64),
        "utc_ns": np.array([w.utc_ns for w in windows], dtype=np.int64),
        "monotonic_ns": np.array([w.monotonic_ns for w in windows], dtype=np.int64),
    }
    for name in NUMBERS:
        found[name] = _numbers(getattr(w, name) for w in windows)
    numbers = {state: float(number) for number, state in enumerate(STATES)}
    numbers |= {mode: numbers[state] for mode, state in STATE_OF.items()}
    found["state"] = _numbers(None if w.state is None else numbers[w.state] for w in windows)
    for name in OF_GROUPS:
        lists = [getattr(w, name) for w in windows]
        for at, group in enumerate(groups):
            found[f"{name}_{group}"] = _numbers(v[at] if v else None for v in lists)
    for name in ("reason", "forced"):
        texts = np.empty(len(windows), dtype=object)
        texts[:] = [getattr(w, name) for w in windows]
        found[name] = texts
    return found


def histograms(windows: Sequence[Window]) -> WindowHistograms:
    """The windows' histograms: buckets that hold something, edges ascending."""
    offsets, edges, counts = [0], [], []
    for window in windows:
        filled: dict[float, int] = {}
        for edge, count in window.histogram or ():
            if count:
                upper_us = math.inf if edge is None else edge
                filled[upper_us] = filled.get(upper_us, 0) + count
        edges += sorted(filled)
        counts += [filled[edge] for edge in sorted(filled)]
        offsets.append(len(edges))
    return WindowHistograms(
        np.array(offsets, dtype=np.uint64),
        np.array(edges, dtype=np.float64),
        np.array(counts, dtype=np.uint64),
    )


def _numbers(values: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if v is None else v for v in values], dtype=np.float64)
