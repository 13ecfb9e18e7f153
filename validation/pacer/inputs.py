"""Entries whose numbers go into the simulation: they are checked for having arrived there."""

from __future__ import annotations

from collections.abc import Callable

from wattio import _core
from wattio.simulator import profile

from validation.pacer.data import PACER, PATTERNS, Evaluation
from validation.pacer.entries import Entry, Evidence, Reading, exact

TESTBED, TABLE_1, TABLE_2 = "section V, testbed", "Table I", "Table II"
BURST = "section V-A4"
KIB = 1 / 1024
US = 1e6

Taken = Callable[[Evaluation], float | str | None]


def entries() -> list[Entry]:
    """Every input: the testbed, Table I, Table II, the law's own numbers and the workloads'."""
    return [*_testbed(), *_drives(), *_patterns(), *_law(), *_workloads()]


def _input(
    key: str, where: str, quantity: str, unit: str, take: Taken, scale: float = 1.0, why: str = ""
) -> Entry:
    def read(seen: Evidence) -> list[Reading]:
        value = take(seen.study)
        number = exact(value) if isinstance(value, float) else value
        return [Reading("", number)]

    return Entry(key, where, quantity, unit, "input", read, lambda _: why, scale)


def _testbed() -> list[Entry]:
    def background(study: Evaluation) -> str:
        cores = _total(study, "background_cores")
        return "continuous, also without client requests" if cores > 0 else "none"

    def frequency(study: Evaluation) -> float:
        return _core.parse_quantity(study.server["cores"]["frequency_max"], "frequency") / 1e9

    low = "testbed.real_load_below_10_percent_pressure_share_of_time"
    where = "section III-A3, fig. 5"
    return [
        _input("testbed.cores", TESTBED, "cores", "", lambda s: _total(s, "cores")),
        _input(
            "testbed.max_frequency_hz", TESTBED, "highest frequency", "GHz", frequency, scale=1e-9
        ),
        _input("testbed.ssds", TESTBED, "SSDs", "", lambda s: float(s.server["drives"]["count"])),
        _input(low, where, "share of the time under 10 % pressure", "", _low_share_of_day),
        _input("testbed.background_io", "section III-A2", "background work", "", background),
    ]


def _low_share_of_day(study: Evaluation) -> float | None:
    """Share of the simulated day's span at a pressure under 10 %."""
    if "day" not in study.inputs["loads"]:
        return None
    segments = study.inputs["loads"]["day"]["profile"]["segments"]
    low_s = sum(segment["span_s"] for segment in segments if (segment["pressure"] or 0) < 0.1)
    return float(low_s / sum(segment["span_s"] for segment in segments))


def _drives() -> list[Entry]:
    found = []
    for place, share in enumerate((0, 10, 50, 100)):
        key, name = f"ssd_power.load{share}", f"{share} % load"
        watts = _drive("load", place, "power", "power")
        found.append(_input(f"{key}.power_w", TABLE_1, f"one SSD, {name}", "W", watts))
        found.append(
            _input(f"{key}.wake_up_s", TABLE_1, f"wake-up, {name}", "µs", _known(0.0), scale=US)
        )
    for place in (0, 1):
        key, name = f"ssd_power.idle{place}", f"Idle-{place}"
        watts = _drive("sleep", place, "power", "power")
        wake_us = _drive("sleep", place, "wake", "time", US)
        found.append(_input(f"{key}.power_w", TABLE_1, f"one SSD, {name}", "W", watts))
        found.append(
            _input(f"{key}.wake_up_s", TABLE_1, f"wake-up from {name}", "µs", wake_us, scale=US)
        )
    return found


def _patterns() -> list[Entry]:
    found = []
    for name in PATTERNS:
        pattern, key = profile.PATTERNS[name], f"access_pattern.{name}"
        size = _known(pattern.io_bytes * KIB)
        reads = _known(pattern.read_fraction)
        random = _known("yes" if pattern.random_fraction == 1 else "no")
        found += [
            _input(f"{key}.io_bytes", TABLE_2, f"{name}: size", "KiB", size, scale=KIB),
            _input(f"{key}.read_fraction", TABLE_2, f"{name}: share of reads", "", reads),
            _input(f"{key}.random", TABLE_2, f"{name}: random", "", random),
        ]
    return found


def _law() -> list[Entry]:
    check = "section IV-B"
    rows = [
        ("burst_window_s", check, "window of the burst check", "s", "window"),
        ("burst_cpu_utilisation", check, "utilisation that is a burst", "", "burst_utilisation"),
        ("idle_after_s", check, "time without a request until Idle", "s", "idle_after"),
        ("best_plf", "section V-A1", "best plf", "", "plf"),
    ]
    return [
        _input(f"results.{key}", where, quantity, unit, _setting(name))
        for key, where, quantity, unit, name in rows
    ]


def _workloads() -> list[Entry]:
    length = (
        "A steady simulated load needs less: after the warm-up it stays as it is, and the intervals"
        " over five seeds are narrower than the deviations. The day takes half an hour."
    )
    pressure = "results.burst.pressure_percent"
    return [
        _input(
            "results.workload_duration_s",
            "section V, execution",
            "length of a workload",
            "s",
            _steady_s,
            1.0,
            length,
        ),
        _input(
            f"{pressure}[0]", BURST, "pressure before the burst", "%", _phase(0, "pressure", 100)
        ),
        _input(f"{pressure}[1]", BURST, "pressure of the burst", "%", _phase(1, "pressure", 100)),
        _input(
            "results.burst.io_bytes_after",
            BURST,
            "size in the burst",
            "KiB",
            _phase(1, "io_bytes", KIB),
            KIB,
        ),
        _input("results.burst.wait_s", BURST, "wait before the burst", "s", _phase(0, "span_s", 1)),
    ]


def _steady_s(study: Evaluation) -> float | None:
    """How long the steady loads below full pressure are simulated, in seconds."""
    for entry in study.folder.resolved()["load"]:
        if entry.get("duration") and entry.get("pressure", 1.0) < 1:
            return float(_core.parse_quantity(entry["duration"], "time"))
    return None


def _known(value: float | str) -> Taken:
    return lambda _: value


def _setting(name: str) -> Taken:
    return lambda study: study.policy_setting(PACER, name)


def _drive(part: str, place: int, key: str, kind: str, scale: float = 1.0) -> Taken:
    def take(study: Evaluation) -> float:
        return scale * _core.parse_quantity(study.server["drives"][part][place][key], kind)

    return take


def _phase(place: int, key: str, scale: float) -> Taken:
    def take(study: Evaluation) -> float | None:
        if "burst" not in study.inputs["loads"]:
            return None
        phases = study.inputs["loads"]["burst"]["request"]["phases"]
        return float(phases[place][key]) * scale if key in phases[place] else None

    return take


def _total(study: Evaluation, key: str) -> float:
    return float(sum(group[key] for group in study.server["group"]))
