"""Simulated runs: from what a user names to what the native simulator takes, and back.

The commands `simulate` and `oracle`, and studies of kind "simulation", all go through here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[float], None]
Setting = float | int | bool | str


@dataclass(frozen=True)
class Request:
    """One run to simulate.

    `server` is the name of a built-in description or a path to a TOML file. `load` is one of
    `{"pattern": "Rand_RW", "pressure": 0.1}`, `{"pattern": ..., "iops": 5000.0}`,
    `{"trace": "path", "rate_scale": 1.0, "time_scale": 1.0}` or `{"profile": "path"}`; the first
    two may carry `"open": True` and `"clients": 900`. `duration_s` None means: to the load's end.
    """

    server: str
    policy: str
    load: Mapping[str, Any]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    duration_s: float | None = None
    warmup_s: float = 10.0
    window_s: float = 0.5
    seed: int = 1


@dataclass(frozen=True)
class Outcome:
    """What one run gave.

    `summary` has the keys of `wattio simulate --json` but for those that need a native twin;
    `windows` and the histograms are documented in `wattio._core.Simulation`.
    """

    request: Request
    summary: dict[str, Any]
    windows: dict[str, NDArray[np.float64]]
    window_histograms: tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.uint64]]
    latency_histogram: tuple[NDArray[np.float64], NDArray[np.uint64]]


def simulate(
    request: Request,
    *,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
) -> Outcome:
    """Run one simulation. Raises InputError for bad input and Cancelled when `cancelled` is set."""
    raise NotImplementedError


def relate(outcome: Outcome, native: Outcome, plf: float) -> dict[str, Any]:
    """The keys `relative_to_native` and `bound`, from a run and its native twin (same seed)."""
    raise NotImplementedError
