"""Metrics of an iteration, from its summary, its windows and its native twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wattio.analysis import efficiency, energy
from wattio.analysis.histogram import Counts, Edges, WindowHistograms, percentiles
from wattio.results.recompute import BALANCE_LIMIT
from wattio.results.runs import Metrics, Verdict
from wattio.results.states import PERCENTILES, STATE_OF, TAILS
from wattio.results.summary import BOUNDS_KEPT
from wattio.simulator.simulation import Outcome, overload

UNITS = {
    "duration_s": "s",
    "ios": "1",
    "ios_waiting_end": "1",
    "iops_mean": "1/s",
    "throughput_mib_s": "MiB/s",
    "latency_us_mean": "us",
    "latency_us_p50": "us",
    "latency_us_p99": "us",
    "latency_us_p999": "us",
    "power_w_mean": "W",
    "energy_j": "J",
    "iops_per_watt": "1/J",
    "background_rate_mean": "core-s/s",
    "background_rate_due": "core-s/s",
    "cores_active_mean": "1",
    "frequency_hz_mean": "Hz",
    "utilisation_mean": "1",
    "requests_in_system_mean": "1",
    "state_changes": "1",
    "knob_changes": "1",
    "events": "1",
}
"""Metrics that a summary holds under the same name, with their units."""

COMPONENTS = ("cores", "drives", "rest")
"""The parts of a server whose energy is accounted for one by one."""

RELATIVE = ("iops", "iops_per_watt", "latency_us_mean", "latency_us_p99", "background_rate")
"""Metrics that are also given as a ratio to the native twin."""

LITTLE_LIMIT = 1e-3
"""Deviation from Little's law beyond what the ends of a run explain."""


def of_outcome(outcome: Outcome) -> Metrics:
    """Metrics of one run alone. What the run did not give is absent."""
    found: Metrics = {}
    for name, unit in UNITS.items():
        value = outcome.summary.get(name)
        if value is not None:
            found[name] = (float(value), unit)
    for component in COMPONENTS:
        column = outcome.windows.get(f"energy_{component}_j")
        if column is not None:
            found[f"energy_{component}_j"] = (energy.total_energy_j(column), "J")
    shares = outcome.summary.get("state_share") or {}
    for mode, share in shares.items():
        name = f"state_share_{STATE_OF.get(mode, mode)}"
        found[name] = (found.get(name, (0.0, "1"))[0] + float(share), "1")
    return found | _percentiles(*outcome.latency_histogram, {"latency_us_p9999": 0.9999})


def _percentiles(edge: Edges, count: Counts, shares: Mapping[str, float]) -> Metrics:
    """Percentiles of a histogram."""
    return {name: (us, "us") for name, us in percentiles(edge, count, shares).items()}


def of_tails(own: Metrics, native: Metrics) -> Metrics:
    """Ratios of the far percentiles of a run to its native twin's, from both runs' metrics."""
    found: Metrics = {}
    for name in TAILS:
        if name in own and native.get(name, (0.0, ""))[0] > 0:
            found[f"relative_{name}"] = (own[name][0] / native[name][0], "1")
    return found


def of_relation(relation: Mapping[str, Any]) -> Metrics:
    """Metrics of a run and its native twin, from what `simulation.relate` gives."""
    found: Metrics = {}
    relative = relation.get("relative_to_native") or {}
    for name in RELATIVE:
        if relative.get(name) is not None:
            found[f"relative_{name}"] = (float(relative[name]), "1")
    return found


def of_plf(relation: Mapping[str, Any]) -> Metrics:
    """How a run kept the bound on its mean that a plf is, from what `simulation.relate` gives."""
    found: Metrics = {}
    bound = relation.get("bound") or {}
    for name in ("plf", "latency_us_mean_ok", "violation_share"):
        if bound.get(name) is not None:
            found[f"bound_{name}"] = (float(bound[name]), "1")
    return found


def of_bounds(judged: Sequence[Mapping[str, Any]]) -> Metrics:
    """How a run kept bounds that were given, from what `bounds.judge` says of each.

    Of several the worst counts. What no request was answered for is absent.
    """
    found: Metrics = {}
    kept = [bound["kept"] for bound in judged if bound["kept"] is not None]
    if kept:
        found[BOUNDS_KEPT] = (float(all(kept)), "1")
    ratios = [bound["run_ratio" if bound["scope"] == "run" else "worst"] for bound in judged]
    shares = [bound["violation_share"] for bound in judged]
    for name, values in (("bound_limit_ratio", ratios), ("bound_violation_share", shares)):
        told = [float(value) for value in values if value is not None]
        if told:
            found[name] = (max(told), "1")
    return found


def of_powers(power_w: float, native_w: float, oracle_w: float | None) -> Metrics:
    """Share of power saved, and share of what the oracle saves where there is one."""
    found: Metrics = {"saving_share": (efficiency.saving(power_w, native_w), "1")}
    if oracle_w is not None:
        captured = efficiency.captured_share(power_w, native_w, oracle_w)
        if captured is not None:
            found["captured_share"] = (captured, "1")
    return found


def from_windows(outcome: Outcome) -> Metrics:
    """The metrics that windows alone determine, derived without the summary."""
    windows = outcome.windows
    span_s, ios = windows["span_s"], windows["ios"]
    energy_j = energy.total_energy_j(windows["energy_j"])
    total_s, total_ios = float(np.sum(span_s)), float(np.sum(ios))
    found: Metrics = {"energy_j": (energy_j, "J"), "ios": (total_ios, "1")}
    if total_s > 0:
        found["duration_s"] = (total_s, "s")
        found["power_w_mean"] = (energy_j / total_s, "W")
        found["iops_mean"] = (total_ios / total_s, "1/s")
    if energy_j > 0:
        found["iops_per_watt"] = (efficiency.iops_per_watt(total_ios, energy_j), "1/J")
    if total_ios > 0:
        busy = ios > 0
        mean_us = np.sum(ios[busy] * windows["latency_us_mean"][busy]) / total_ios
        found["latency_us_mean"] = (float(mean_us), "us")
    merged = WindowHistograms(*outcome.window_histograms).merged()
    return found | _percentiles(*merged, PERCENTILES)


def _littles_law(summary: Mapping[str, Any]) -> list[Verdict]:
    """Requests in the server must be rate times time in it, but for those cut off at the ends."""
    deviation = summary.get("littles_law_deviation")
    if deviation is None:
        return []
    allowed = LITTLE_LIMIT + 2 * float(summary["requests_in_system_mean"]) / max(
        int(summary["ios"]), 1
    )
    if deviation <= allowed:
        return []
    text = f"LITTLES_LAW: off by {deviation:.1e}, where the ends allow {allowed:.1e}"
    return [Verdict("INVALID", text)]


def verdicts(outcome: Outcome) -> list[Verdict]:
    """Whether the run may be averaged with others, and why not."""
    found = []
    windows = outcome.windows
    parts = {name: energy.total_energy_j(windows[f"energy_{name}_j"]) for name in COMPONENTS}
    summed_j = energy.total_energy_j(windows["energy_j"])
    whole = {"windows": summed_j}
    worst = max(
        energy.balance_error(summed_j, parts),
        energy.balance_error(float(outcome.summary["energy_j"]), whole),
    )
    if worst > BALANCE_LIMIT:
        text = f"ENERGY_BALANCE: components, windows and total differ by {worst:.1e} of the total"
        found.append(Verdict("INVALID", text))
    found.extend(_littles_law(outcome.summary))
    left = overload(outcome.request, outcome.summary)
    if left is not None:
        found.append(Verdict("WARN", f"OVERLOADED: {left}"))
    ios = int(outcome.summary["ios"])
    if ios < 1000:
        text = f"FEW_IOS: {ios} I/Os; the 99th percentile rests on fewer than ten of them"
        found.append(Verdict("WARN", text))
    if len(windows["span_s"]) < 60:
        text = f"LOW_N: {len(windows['span_s'])} latency windows, fewer than 60"
        found.append(Verdict("WARN", text))
    return found or [Verdict("VALID", "")]
