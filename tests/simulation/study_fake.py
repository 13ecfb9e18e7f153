"""A small made-up simulator for tests of studies: deterministic, and true to the contract.

Its numbers are invented; its sums, means and histograms belong together as a real run's do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from wattio.analysis.histogram import WindowHistograms, percentile
from wattio.errors import Cancelled, InputError
from wattio.simulator.simulation import Outcome, Request, Setting

SPANS_S = {"phases": 40.0, "pattern": 40.0, "profile": 60.0, "trace": 45.0}
DEFAULTS: dict[str, dict[str, Setting]] = {
    "native": {},
    "ondemand": {"up_threshold": 0.8},
    "pacer": {"plf": 0.2, "window_s": 0.5},
    "oracle": {"plf": 0.2},
}
SAVED = {"native": 0.0, "ondemand": 0.02, "pacer": 0.18, "oracle": 0.3}
SLOWED = {"native": 1.0, "ondemand": 1.22, "pacer": 1.1, "oracle": 1.17}


class FakeSimulator:
    """Stands in for the native simulator behind `wattio.simulator.native.Simulator`."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.simulated: list[Request] = []
        self._stop_after = stop_after
        self._lock = threading.Lock()

    def simulate(
        self,
        request: Request,
        *,
        progress: Callable[[float], None] | None = None,
        cancelled: threading.Event | None = None,
    ) -> Outcome:
        with self._lock:
            if self._stop_after is not None and len(self.simulated) >= self._stop_after:
                raise KeyboardInterrupt
            self.simulated.append(request)
        if cancelled is not None and cancelled.is_set():
            raise Cancelled("stopped")
        if progress:
            progress(0.5)
        return outcome(request)

    def relate(self, outcome: Outcome, native: Outcome, plf: float | None) -> dict[str, Any]:
        mine, twin = outcome.summary, native.summary

        def ratio(name: str) -> float:
            return float(mine[name] / twin[name])

        mean = ratio("latency_us_mean")
        bound = None
        if plf is not None:
            theirs_us = native.windows["latency_us_mean"]
            over = outcome.windows["latency_us_mean"] > (1 + plf) * theirs_us
            bound = {
                "plf": plf,
                "latency_us_mean_ok": mean <= 1 + plf,
                "violation_share": float(np.mean(over)),
            }
        return {
            "relative_to_native": {
                "iops": ratio("iops_mean"),
                "iops_per_watt": ratio("iops_per_watt"),
                "latency_us_mean": mean,
                "latency_us_p99": ratio("latency_us_p99"),
                "background_rate": ratio("background_rate_mean"),
            },
            "bound": bound,
        }

    def server(self, name: str, power_model: str | None = None) -> dict[str, Any]:
        if name == "nonesuch":
            raise InputError('no server is called "nonesuch"; allowed: dorado6000, small')
        return {
            "name": name,
            "assumptions": ["service times are scaled to the published rate", "group sizes"],
        }

    def settings(self, policy: str, given: Mapping[str, Setting]) -> dict[str, Setting]:
        if policy not in DEFAULTS:
            raise InputError(f"unknown policy {policy!r}; allowed: {', '.join(DEFAULTS)}")
        unknown = set(given) - set(DEFAULTS[policy])
        if unknown:
            raise InputError(f"{policy} has no setting {unknown.pop()!r}")
        return {**DEFAULTS[policy], **given}


def outcome(request: Request) -> Outcome:
    """A made-up run whose totals follow from its windows."""
    kind = next(key for key in SPANS_S if key in request.load)
    count = round((request.duration_s or SPANS_S[kind]) / request.window_s)
    draw = np.random.default_rng(request.seed)
    phase = np.linspace(0, 6 * np.pi, count)
    level = 1.2 + np.sin(phase) + 0.1 * draw.random(count)
    plf = float(request.settings.get("plf", 0.2))
    extent = plf / 0.2 if request.policy == "pacer" else 1.0
    saved = SAVED[request.policy] * min(extent, 1.4) / (0.4 + 0.5 * level)
    ios = np.floor(3000 * level * request.window_s)
    if count > 20:
        ios[count // 3 : count // 3 + 6] = 0
    slow = 1 + (SLOWED[request.policy] - 1) * extent
    edge = np.array([90.0, 110.0, 150.0, 240.0, 900.0])
    shares = np.array([0.3, 0.3, 0.25, 0.13, 0.02])
    buckets = np.floor(ios[:, None] * shares)
    buckets[:, 0] += ios - buckets.sum(axis=1)
    latency = np.round(edge * slow, 3)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = buckets @ latency / ios
    filled = buckets > 0
    offsets = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.uint64)
    flat_edge = np.broadcast_to(latency, buckets.shape)[filled]
    histograms = WindowHistograms(offsets, flat_edge, buckets[filled].astype(np.uint64))
    span = np.full(count, request.window_s)
    watts = {"cores": (340 + 30 * level) * (1 - saved), "drives": 200 + 8 * level}
    watts["rest"] = np.full(count, 133.0)
    joules = {name: value * span for name, value in watts.items()}
    state = np.full(count, 3.0)
    if request.policy == "pacer":
        state = np.where(level > 1.9, 0.0, np.where(ios == 0, 2.0, 1.0))
    windows = {
        "start_s": np.arange(count) * request.window_s,
        "span_s": span,
        "ios": ios,
        "latency_us_mean": mean,
        "latency_us_p99": np.where(ios > 0, latency[3], np.nan),
        "energy_j": sum(joules.values(), np.zeros(count)),
        "energy_cores_j": joules["cores"],
        "energy_drives_j": joules["drives"],
        "energy_rest_j": joules["rest"],
        "cores_active_mean": 96 * (1 - saved),
        "frequency_hz_mean": 2.6e9 * (1 - 0.4 * saved),
        "utilisation": 0.3 * level,
        "background_rate": np.full(count, 30.0 * (1 - 0.05 * SAVED[request.policy])),
        "state": state,
        "cores_normal": 40 * (1 - saved),
    }
    return Outcome(
        request,
        _summary(request, windows, histograms),
        windows,
        (histograms.offsets, histograms.edge, histograms.count),
        histograms.merged(),
    )


def _summary(
    request: Request, windows: dict[str, Any], histograms: WindowHistograms
) -> dict[str, Any]:
    span_s, energy_j = float(windows["span_s"].sum()), float(windows["energy_j"].sum())
    ios = float(windows["ios"].sum())
    busy = windows["ios"] > 0
    edge, count = histograms.merged()
    return {
        "policy": request.policy,
        "seed": request.seed,
        "duration_s": span_s,
        "ios": int(ios),
        "iops_mean": ios / span_s,
        "latency_us_mean": float(
            (windows["ios"][busy] * windows["latency_us_mean"][busy]).sum() / ios
        ),
        **{
            f"latency_us_{name}": percentile(edge, count, share)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
        },
        "power_w_mean": energy_j / span_s,
        "energy_j": energy_j,
        "iops_per_watt": ios / energy_j,
        "background_rate_mean": float(windows["background_rate"].mean()),
        "cores_active_mean": float(windows["cores_active_mean"].mean()),
        "frequency_hz_mean": float(windows["frequency_hz_mean"].mean()),
        "state_share": {
            name: float(np.mean(windows["state"] == number))
            for number, name in enumerate(("unstable", "stable", "idle"))
        },
        "events": int(ios) * 7,
        "events_per_s": 1e6,
        "wall_s": 0.1,
    }
