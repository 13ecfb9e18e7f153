"""Entries that compare what the simulation gave, each with the reason why it differs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from wattio.analysis.statistics import Interval
from wattio.simulator.policies import REFERENCE

from validation.pacer import data, knobs, reasons
from validation.pacer.data import (
    ONDEMAND,
    ONDEMAND_PRINTED,
    PACER,
    PRINTED,
    fixed,
    interval,
    load_name,
)
from validation.pacer.entries import Entry, Evidence, Reading, exact

IPW, LATENCY = "iops_per_watt", "latency_us_mean"
GATED_SHARE = 0.63
ASSUMED = "ASSUMED pressure"

Read = Callable[[Evidence], list[Reading]]


def entries() -> list[Entry]:
    """Every number that a simulated run answers."""
    return [*_server(), *_idle_savings(), *_day(), *_patterns(), *_mlperf(), *_typical(), *_knobs()]


def _server() -> list[Entry]:
    def share(seen: Evidence) -> list[Reading]:
        found = []
        for pressure in (0.03, 0.10, 1.00):
            load, value = load_name("Rand_RW", pressure), data.core_and_drive_percent
            found.append(Reading(_at(pressure), seen.study.mean(load, REFERENCE, value)))
        return found

    def rate(pressure: float) -> Read:
        load = load_name("Rand_RW", pressure)
        return lambda seen: [Reading(_at(pressure), seen.study.mean(load, REFERENCE, "iops_mean"))]

    where, quantity = "section III-B1", "IOPS at {} % pressure"
    key = "testbed.cpu_and_ssd_share_of_power_percent"
    what = "CPUs and SSDs of the server's power"
    drawn = "section III-A1, observation 1, fig. 2"
    return [
        Entry(
            "testbed.iops_at_10_percent_pressure",
            where,
            quantity.format(10),
            "IOPS",
            "fitted",
            rate(0.10),
        ),
        Entry(
            "testbed.iops_at_100_percent_pressure",
            where,
            quantity.format(100),
            "IOPS",
            "fitted",
            rate(1.00),
        ),
        Entry(f"{key}[0]", drawn, f"{what}, from", "%", "result", share, reasons.contradiction),
        Entry(f"{key}[1]", drawn, f"{what}, to", "%", "result", share, lambda _: "As above."),
    ]


def _idle_savings() -> list[Entry]:
    def read(state: str) -> Read:
        def found(seen: Evidence) -> list[Reading]:
            value = seen.idle_saving_percent.get(state)
            return [Reading("idle server", None if value is None else exact(value))]

        return found

    return [
        Entry(
            f"ssd_power.{state}.system_saving_percent",
            "Table I",
            f"whole system's saving, {name}",
            "%",
            "fitted",
            read(state),
            reasons.idle_saving,
        )
        for state, name in (("idle0", "Idle-0"), ("idle1", "Idle-1"))
    ]


def _day() -> list[Entry]:
    def read(metric: str, *labels: str) -> Read:
        return lambda seen: [
            Reading(
                own, seen.study.ratio("day", own, metric), seen.study.background_done("day", own)
            )
            for own in labels
        ]

    gain, latency = "results.trace_iops_per_watt", "results.trace_average_latency"
    text = "abstract, section V-B1, fig. {}"
    both = (ONDEMAND, ONDEMAND_PRINTED)
    return [
        Entry(
            f"{gain}.pacer",
            text.format(18),
            "day, IOPS/W of PACER",
            "x",
            "result",
            read(IPW, PACER, PRINTED),
            reasons.day_gain,
        ),
        Entry(
            f"{gain}.ondemand",
            text.format(18),
            "day, IOPS/W of ondemand",
            "x",
            "fitted",
            read(IPW, *both),
            reasons.ondemand_gain,
        ),
        Entry(
            f"{latency}.pacer",
            text.format(17),
            "day, mean latency of PACER",
            "x",
            "result",
            read(LATENCY, PACER, PRINTED),
            reasons.day_latency,
        ),
        Entry(
            f"{latency}.ondemand",
            text.format(17),
            "day, mean latency of ondemand",
            "x",
            "result",
            read(LATENCY, *both),
            reasons.ondemand_latency,
        ),
    ]


def _patterns() -> list[Entry]:
    def read(label: str) -> Read:
        def found(seen: Evidence) -> list[Reading]:
            return [
                Reading(_at(p), seen.study.geometric_mean(p, label, IPW), _least(seen, p, label))
                for p in data.LOW_PRESSURES
            ]

        return found

    key = "results.access_patterns_iops_per_watt_geomean"
    where, what = "section V-A2, fig. 13", "five access patterns, geometric mean of IOPS/W"
    return [
        Entry(
            f"{key}.pacer",
            where,
            f"{what}, PACER",
            "x",
            "fitted",
            read(PACER),
            reasons.pattern_gain,
        ),
        Entry(
            f"{key}.ondemand",
            where,
            f"{what}, ondemand",
            "x",
            "fitted",
            read(ONDEMAND),
            reasons.ondemand_gain,
        ),
    ]


def _mlperf() -> list[Entry]:
    def read(load: str, label: str) -> Read:
        return lambda seen: [
            Reading(
                ASSUMED,
                seen.study.saving_percent(load, label),
                seen.study.background_done(load, label),
            )
        ]

    found = []
    for name, load in data.MLPERF.items():
        key = f"results.mlperf_power_reduction_percent_{name.lower().replace('-', '')}"
        for label in (PACER, ONDEMAND):
            found.append(
                Entry(
                    f"{key}.{label.lower()}",
                    "section V-B2, fig. 19",
                    f"MLPerf {name}, power saved by {label}",
                    "%",
                    "result",
                    read(load, label),
                    reasons.mlperf if label == PACER else reasons.mlperf_ondemand,
                )
            )
    return found


def _typical() -> list[Entry]:
    runs = [
        (load_name("Rand_RW", p), label, _at(p) + ("" if label == PACER else ", as printed"))
        for label in (PACER, PRINTED)
        for p in data.LOW_PRESSURES
    ]

    def latency(seen: Evidence) -> list[Reading]:
        found = []
        for load, label, name in runs:
            ratios = seen.study.ratios(load, label, LATENCY)
            grown = interval([100 * (ratio - 1) for ratio in ratios])
            found.append(Reading(name, grown, seen.study.background_done(load, label)))
        return found

    def saving(seen: Evidence) -> list[Reading]:
        return [
            Reading(
                name,
                seen.study.saving_percent(load, label),
                seen.study.background_done(load, label),
            )
            for load, label, name in runs
        ]

    where = "section V-A1, fig. {}"
    return [
        Entry(
            "results.rand_rw_max_latency_increase_percent",
            where.format(10),
            "Rand_RW, typical pressures, plf 0.2: mean latency, most",
            "%",
            "result",
            latency,
            reasons.typical_latency,
        ),
        Entry(
            "results.rand_rw_power_saving_percent",
            where.format(11),
            "Rand_RW, typical pressures, plf 0.2: power saved",
            "%",
            "result",
            saving,
            reasons.typical_saving,
        ),
    ]


def _knobs() -> list[Entry]:
    low, full = load_name("Rand_RW", 0.10), load_name("Rand_RW", 1.00)
    slowest = fixed("frequency_share", 0.3)

    def gated(seen: Evidence) -> list[Reading]:
        label = fixed("cores_share", GATED_SHARE)
        measured = seen.study.ratio(low, label, IPW)
        cores = seen.study.mean(low, label, "cores_active_mean")
        shown = "63 % rounded up by group" if cores is None else f"{cores.estimate:.0f} cores"
        done = seen.study.background_done(low, label)
        return [
            Reading(shown, measured, done),
            Reading("60.5 cores, interpolated", _at_share(seen)),
        ]

    def dvfs(metric: str) -> Read:
        return lambda seen: [Reading(_at(1.00), seen.study.ratio(full, slowest, metric))]

    key = "results.dvfs_at_30_percent_frequency_full_pressure"
    return [
        Entry(
            "results.gating_iops_per_watt_at_63_percent_cores",
            "section III-B1, fig. 7",
            "gating to 63 % of the cores, 10 % pressure, IOPS/W",
            "x",
            "fitted",
            gated,
            reasons.gating,
        ),
        Entry(
            "results.gating_latency_rises_below_percent_cores",
            "section III-B1, fig. 7",
            "active cores below which latency rises, 10 % pressure",
            "%",
            "fitted",
            lambda seen: [Reading("mean latency risen by 2 %", knobs.knee_percent(seen.study))],
            reasons.knee,
        ),
        Entry(
            f"{key}_iops_per_watt",
            "section III-B1, fig. 6",
            "30 % frequency, full pressure, IOPS/W",
            "x",
            "result",
            dvfs(IPW),
            reasons.dvfs,
        ),
        Entry(
            f"{key}_latency",
            "section III-B1, fig. 6 (printed '2.5 %')",
            "30 % frequency, full pressure, mean latency",
            "x",
            "fitted",
            dvfs(LATENCY),
            reasons.dvfs,
        ),
    ]


def _at(pressure: float) -> str:
    return f"at {100 * pressure:.0f} % pressure"


def _least(seen: Evidence, pressure: float, label: str) -> Interval | None:
    """Background work done on the pattern of Table II on which least of it is done."""
    found = [seen.study.background_done(load_name(p, pressure), label) for p in data.PATTERNS]
    known = [done for done in found if done is not None]
    return min(known, key=lambda done: done.estimate) if known else None


def _at_share(seen: Evidence) -> Interval | None:
    """IOPS/W over native at just 63 % of the cores, between the simulated numbers of cores."""
    points = knobs.points(seen.study, "cores_share", 0.10)
    known = [(point.share, point.ratios[IPW]) for point in points if IPW in point.ratios]
    if len(known) < 2:
        return None
    shares, gains = zip(*known, strict=True)
    parts = [[getattr(gain, end) for gain in gains] for end in ("estimate", "low", "high")]
    estimate, low, high = (float(np.interp(GATED_SHARE, shares, part)) for part in parts)
    return Interval(estimate, low, high, gains[0].confidence)
