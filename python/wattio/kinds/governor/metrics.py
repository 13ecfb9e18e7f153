"""Metrics and verdicts of a governor's journal, window by window.

A window counts towards the bound when the law was saving while it ran, it had requests, and its
baseline and bound were known. In shadow mode the latency that is held against the bound is the
model's; every metric that rests on a model is called an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattio.analysis import efficiency
from wattio.analysis.histogram import Counts, Edges, WindowHistograms, merge, percentiles
from wattio.kinds.governor.journal import BY_TURNS, Machine, Summary
from wattio.kinds.governor.windows import Columns
from wattio.results.runs import Metrics, Verdict
from wattio.results.states import PERCENTILES, STATES

STABLE = float(STATES.index("stable"))
"""Number of the state in which a law saves."""

CLOCK_S, CLOCK_SHARE = 1.0, 1e-3
"""How far two clocks may drift apart: a second, and twice what NTP may slew (500 ppm)."""

GAP_S = 1.0
"""Time that no window covers is a gap from this on, if it is also longer than the window."""

MISSING_SHARE, FORCED_SHARE = 0.01, 0.05
"""Shares of windows without latency, and with full speed forced, from which on it is told."""

WINDOWS_FEW = 60
"""Fewer windows than this say little; as for simulated runs."""

OF_COUNTS = (
    *("knob_writes", "knob_failures", "foreign_changes"),
    *("source_errors", "flaps", "breaker_trips"),
)
"""Counts of the daemon that become metrics of the same name."""

OF_SHADOW = ("windows_fitted", "windows_kept_out")
"""Counts of shadow mode's model that become metrics of the same name."""


@dataclass
class Energy:
    """Energy over the windows that have a power, and their span."""

    energy_j: float = 0.0
    span_s: float = 0.0

    def add(self, power_w: NDArray[np.float64], dt_s: NDArray[np.float64]) -> None:
        """Take in windows; NaN is no power."""
        known = np.isfinite(power_w)
        self.energy_j += float(np.sum(power_w[known] * dt_s[known]))
        self.span_s += float(np.sum(dt_s[known]))


@dataclass
class Tally:
    """What is summed over windows that come in order, piece by piece."""

    windows: int = 0
    span_s: float = 0.0
    missing: int = 0
    forced: int = 0
    by_turns: int = 0
    bounded: int = 0
    violations: int = 0
    changes: int = 0
    requests: float = 0.0
    latency_us_sum: float = 0.0
    bounded_us_sum: float = 0.0
    baseline_us_sum: float = 0.0
    tolerance: float | None = None
    state_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(STATES)))
    estimated: Energy = field(default_factory=Energy)
    full_speed: Energy = field(default_factory=Energy)
    measured: Energy = field(default_factory=Energy)
    gaps: int = 0
    gap_s: float = 0.0
    backwards: int = 0
    offset_ns: tuple[int, int] | None = None
    first_ns: int = 0
    first_dt_s: float = 0.0
    last_ns: tuple[int, int] | None = None
    edge: Edges = field(default_factory=lambda: np.empty(0))
    count: Counts = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _state: float = float("nan")
    _setting: NDArray[np.float64] | None = None

    def add(self, columns: Columns, histograms: WindowHistograms) -> None:
        """Take in the next windows."""
        dt_s, requests = columns["dt_s"], columns["requests"]
        if not len(dt_s):
            return
        self._clocks(columns)
        self.windows += len(dt_s)
        self.span_s += float(np.sum(dt_s))
        latency_us = columns["latency_us_mean"]
        without = ~(requests >= 0) | ((requests > 0) & np.isnan(latency_us))
        self.missing += int(np.sum(without))
        self.forced += int(np.sum([text is not None for text in columns["forced"]]))
        self.by_turns += int(np.sum([text == BY_TURNS for text in columns["forced"]]))
        served = (requests > 0) & np.isfinite(latency_us)
        self.requests += float(np.sum(requests[served]))
        self.latency_us_sum += float(np.sum(requests[served] * latency_us[served]))
        self._bound(columns)
        self._settings(columns)
        for number in range(len(STATES)):
            self.state_s[number] += float(np.sum(dt_s[columns["state"] == number]))
        now_w, full_w = columns["power_w_estimated"], columns["power_w_full_speed_estimated"]
        both = np.isfinite(now_w) & np.isfinite(full_w)
        self.estimated.add(np.where(both, now_w, np.nan), dt_s)
        self.full_speed.add(np.where(both, full_w, np.nan), dt_s)
        self.measured.add(columns["power_w_measured"], dt_s)
        own = (histograms.edge, histograms.count)
        self.edge, self.count = merge([(self.edge, self.count), own])

    def _clocks(self, columns: Columns) -> None:
        utc_ns, now_ns, dt_s = columns["utc_ns"], columns["monotonic_ns"], columns["dt_s"]
        offsets = utc_ns - now_ns
        low, high = int(offsets.min()), int(offsets.max())
        before = self.offset_ns or (low, high)
        self.offset_ns = (min(low, before[0]), max(high, before[1]))
        if self.last_ns is None:
            self.first_ns, self.first_dt_s = int(now_ns[0]), float(dt_s[0])
            steps_ns, covered_s = np.diff(now_ns), dt_s[1:]
        else:
            steps_ns, covered_s = np.diff(now_ns, prepend=self.last_ns[1]), dt_s
        self.backwards += int(np.sum(steps_ns < 0))
        left_s = steps_ns / 1e9 - covered_s
        open_s = left_s[left_s > np.maximum(GAP_S, covered_s)]
        self.gaps += len(open_s)
        self.gap_s += float(np.sum(open_s))
        self.last_ns = (int(utc_ns[-1]), int(now_ns[-1]))

    def _bound(self, columns: Columns) -> None:
        """The law's account, as `governor::Account` keeps it."""
        state = columns["state"]
        before = np.concatenate([[self._state], state[:-1]])
        self._state = float(state[-1])
        seen_us, baseline_us = columns["latency_us_seen"], columns["baseline_us"]
        bound_us, requests = columns["bound_us"], columns["requests"]
        known = np.isfinite(bound_us) & (baseline_us > 0)
        if known.any():
            last = np.flatnonzero(known)[-1]
            with np.errstate(over="ignore"):
                above = float(bound_us[last] / baseline_us[last] - 1)
            self.tolerance = above if np.isfinite(above) else None
        taken = known & (before == STABLE) & (requests > 0) & (seen_us > 0)
        self.bounded += int(np.sum(taken))
        self.violations += int(np.sum(seen_us[taken] > bound_us[taken]))
        self.bounded_us_sum += float(np.sum(requests[taken] * seen_us[taken]))
        self.baseline_us_sum += float(np.sum(requests[taken] * baseline_us[taken]))

    def _settings(self, columns: Columns) -> None:
        names = [name for name in columns if name.startswith(("cores_", "frequency_hz_"))]
        if not names:
            return
        setting = np.nan_to_num(np.stack([columns[name] for name in names], axis=1), nan=-1.0)
        if self._setting is not None:
            setting = np.vstack([self._setting, setting])
        self.changes += int(np.sum((setting[1:] != setting[:-1]).any(axis=1)))
        self._setting = setting[-1:]


def of_tally(tally: Tally, machine: Machine) -> Metrics:
    """Metrics that the windows determine. What they do not tell is absent."""
    shadow = "_estimated" if machine.mode == "observe" else ""
    found: Metrics = {
        "windows": (tally.windows, "1"),
        "windows_missing": (tally.missing, "1"),
        "windows_forced": (tally.forced, "1"),
        "windows_bounded": (tally.bounded, "1"),
        f"violations{shadow}": (tally.violations, "1"),
        f"setting_changes{shadow}": (tally.changes, "1"),
        "span_s": (tally.span_s, "s"),
        "requests": (tally.requests, "1"),
    }
    if tally.requests > 0:
        found["latency_us_mean"] = (tally.latency_us_sum / tally.requests, "us")
    told = percentiles(tally.edge, tally.count, PERCENTILES)
    found |= {name: (value, "us") for name, value in told.items() if np.isfinite(value)}
    if tally.baseline_us_sum > 0:
        loss = tally.bounded_us_sum / tally.baseline_us_sum - 1
        found[f"loss_mean{shadow}"] = (loss, "1")
    if tally.span_s > 0:
        for state, state_s in zip(STATES, tally.state_s.tolist(), strict=True):
            found[f"state_share_{state}"] = (state_s / tally.span_s, "1")
    found |= _of_energies(tally)
    # Sums over a journal that holds what cannot be may overflow.
    return {name: metric for name, metric in found.items() if np.isfinite(metric[0])}


def _of_energies(tally: Tally) -> Metrics:
    found: Metrics = {}
    kinds = (
        ("estimated", tally.estimated),
        ("full_speed_estimated", tally.full_speed),
        ("measured", tally.measured),
    )
    for kind, sums in kinds:
        if sums.span_s > 0:
            found[f"energy_j_{kind}"] = (sums.energy_j, "J")
            found[f"power_w_mean_{kind}"] = (sums.energy_j / sums.span_s, "W")
            if kind != "full_speed_estimated":
                found[f"span_s_{kind}"] = (sums.span_s, "s")
    if tally.full_speed.energy_j > 0:
        share = efficiency.saving(tally.estimated.energy_j, tally.full_speed.energy_j)
        found["saving_share_estimated"] = (share, "1")
    return found


def of_summary(summary: Summary | None) -> Metrics:
    """Metrics that only the daemon knows."""
    if summary is None:
        return {}
    found: Metrics = {name: (getattr(summary.counts, name), "1") for name in OF_COUNTS}
    shadow = summary.shadow
    if shadow is not None:
        found |= {name: (getattr(shadow, name), "1") for name in OF_SHADOW}
        for name in ("error_median", "error_p90"):
            value = getattr(shadow, name)
            if value is not None:
                found[f"prediction_{name}"] = (value, "1")
    return found


def verdicts(
    tally: Tally, summary: Summary | None, truncated: list[str], errors: int
) -> list[Verdict]:
    """Whether the journal can be trusted, and why not; `errors` counts the events that are one."""
    wrong = [Verdict("INVALID", text) for text in _invalid(tally)]
    doubtful = [Verdict("WARN", text) for text in _warnings(tally, summary, truncated, errors)]
    return [*wrong, *doubtful] or [Verdict("VALID", "")]


def _invalid(tally: Tally) -> list[str]:
    if tally.last_ns is None:
        return ["NO_WINDOWS: the journal holds no windows"]
    found = []
    if tally.backwards:
        found.append(f"CLOCKS: the monotonic clock went back {tally.backwards} times")
    elapsed_s = (tally.last_ns[1] - tally.first_ns) / 1e9 + tally.first_dt_s
    if tally.span_s > elapsed_s + CLOCK_S + CLOCK_SHARE * abs(elapsed_s):
        text = f"CLOCKS: windows of {tally.span_s:.1f} s in total lie within {elapsed_s:.1f} s"
        found.append(text)
    return found


def _warnings(
    tally: Tally, summary: Summary | None, truncated: list[str], errors: int
) -> list[str]:
    found = [
        f"TRUNCATED: the last line of {name} is incomplete; the daemon was killed or is writing"
        for name in truncated
    ]
    if 0 < tally.windows < WINDOWS_FEW:
        found.append(f"LOW_N: {tally.windows} windows, fewer than {WINDOWS_FEW}")
    low_ns, high_ns = tally.offset_ns or (0, 0)
    set_s = (high_ns - low_ns) / 1e9
    if set_s > CLOCK_S + CLOCK_SHARE * tally.span_s:
        # Windows go by a clock that nobody sets, and that goes on while the machine is suspended.
        text = f"CLOCK: the wall clock was set by up to {set_s:.1f} s during the run"
        found.append(f"{text}; windows do not go by it, but times of day are off by as much")
    if tally.gaps:
        found.append(f"GAPS: {tally.gaps} gaps, {tally.gap_s:.1f} s not covered by any window")
    if tally.missing > MISSING_SHARE * tally.windows:
        found.append(f"MISSING: {tally.missing} of {tally.windows} windows have no latency")
    # What alternation asks for is no doubt.
    forced = tally.forced - tally.by_turns
    if forced > FORCED_SHARE * tally.windows:
        found.append(f"FORCED: full speed was forced in {forced} of {tally.windows} windows")
    if errors:
        found.append(f"ERRORS: {errors} events are errors")
    if summary is None:
        return [*found, "NO_SUMMARY: the daemon ended before it wrote its first summary"]
    if summary.shadow is not None and not summary.shadow.fitted:
        told = summary.power.no_estimate or summary.shadow.why or "no model of this host"
        why = told.rstrip(". ")
        found.append(f"NO_ESTIMATE: the saving is unknown: {why}")
    counts = summary.counts
    if counts.knob_failures:
        found.append(f"KNOB_FAILURES: {counts.knob_failures} values could not be read or written")
    if counts.foreign_changes:
        found.append(
            f"FOREIGN_CHANGES: {counts.foreign_changes} settings changed by others were left alone"
        )
    if counts.breaker_trips:
        found.append(f"BREAKER: the breaker opened {counts.breaker_trips} times")
    if counts.windows != tally.windows:
        text = f"SUMMARY: {counts.windows} windows counted, {tally.windows} in the journal"
        return [*found, f"{text}; the daemon was killed or is running"]
    theirs = _account(summary)
    if theirs is not None and theirs != (tally.violations, tally.bounded):
        found.append(
            f"ACCOUNT: the daemon counted {theirs[0]} of {theirs[1]} windows above the bound, but"
            f" its journal shows {tally.violations} of {tally.bounded}"
        )
    return found


def _account(summary: Summary) -> tuple[int, int] | None:
    """Windows above the bound that the journal's are held against, and judged windows.

    None where that is not known: a window tells what the law lets the mean come to, whatever bounds
    make it so.
    """
    alone = len(summary.bounds) == 1 and summary.bounds[0].statistic == "mean"
    if summary.bounds and not alone:
        return None
    return summary.counts.violations, summary.counts.windows_bounded
