"""The server description of a fit: what `wattio simulate --server` takes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from wattio import _core
from wattio.calibration.target.design import LARGE, SMALL
from wattio.calibration.target.fit import VARIATION, Demand, Fit
from wattio.calibration.target.folder import Record
from wattio.calibration.target.points import DURABLE, MISS, READ, WRITE
from wattio.files import toml_text

GROUP = "reactors"
_DEVICE_DEPTH = 64
_POWER_OF = "small"
"""The description whose power is taken: nothing here measures any."""


def text(fit: Fit, record: Record, governed_idle: str | None = None) -> str:
    """The description as TOML. Raises InputError where the format does not allow a value.

    With `governed_idle`, "block" or "poll", it is of the target as a law finds it: no frequency can
    be turned, reactors come and go within a millisecond, and those that poll are always awake.
    """
    borrowed = tomllib.loads(_core.built_in_servers()[_POWER_OF])
    core_share, size_share = _core_share(fit), _share(fit.device[MISS])
    content: dict[str, Any] = {
        "name": "target",
        "title": f"wattio-target on {record.host}, calibrated {record.begun[:10]}",
        "assumptions": _assumptions(fit, record, core_share),
        "rest_power": borrowed["rest_power"],
        "network": _us(fit.network_us),
        "clients": 32,
        "cores": borrowed["cores"]
        | {
            "time_variation": VARIATION,
            "wake": {
                "wait": _us(fit.waking.wait_us),
                "work": _us(fit.waking.work_us),
                "cold": _us(fit.waking.cold_us),
                "cooling": _us(fit.waking.cooling_us),
            },
        },
        "group": [{"name": GROUP, "cores": record.reactors, "cores_min": 1}],
        "drives": {
            **{key: value for key, value in borrowed["drives"].items() if key != "sleep"},
            "count": 1,
            "parallel": _DEVICE_DEPTH,
            "layout": "single",
            "size_share": size_share,
            "time_variation": fit.device_variation,
        },
        "cache": {"hit_random": 1.0, "hit_sequential": 1.0},
        "sizing": {"reference": f"{SMALL} B", "core_share": core_share},
        "path": _paths(fit),
    }
    if governed_idle is not None:
        content["cores"] = _governed(content["cores"], governed_idle)
    made = "\n".join([*_head(fit, record), toml_text.dump(content)])
    _core.check_server(made)
    return made


def _governed(cores: Mapping[str, Any], idle: str) -> dict[str, Any]:
    """Cores as reactors under a law."""
    left_out = {"frequency_steps", "voltage"}
    if idle == "poll":
        left_out |= {"wake", "idle_power", "idle_frequency_power"}
    kept = {key: value for key, value in cores.items() if key not in left_out}
    kept |= {"frequency_min": cores["frequency_max"], "gate_off": "1 ms", "gate_on": "1 ms"}
    return kept | ({"idle": "polling"} if idle == "poll" else {})


def _paths(fit: Fit) -> list[dict[str, Any]]:
    """The ways of requests; those that wait for the device pass the reactors twice."""

    def reactors(kind: str, share: float = 1.0) -> dict[str, Any]:
        return {"on": {"group": GROUP}, "time": _us(share * fit.demands[kind].at(SMALL))}

    read = {"on": "drive-read", "time": _us(fit.device[MISS].at(SMALL))}
    written = fit.device.get(DURABLE, fit.device[MISS])
    write = {"on": "drive-write", "time": _us(written.at(SMALL))}
    if WRITE in fit.demands:
        writing = [reactors(WRITE), {"on": "answer"}, write]
    else:
        writing = [reactors(DURABLE, 0.5), write, reactors(DURABLE, 0.5)]
    return [
        {"kind": "read", "stages": [reactors(MISS, 0.5), read, reactors(MISS, 0.5)]},
        {"kind": "read-hit", "stages": [reactors(READ)]},
        {"kind": "write", "stages": writing},
    ]


def _core_share(fit: Fit) -> float:
    """The one share that the format has for all kinds: that which reads from memory have."""
    return _share(fit.demands[READ])


def _share(demand: Demand) -> float:
    """How much of the time of a small request grows with its size."""
    return min(demand.us_per_byte * SMALL / max(demand.at(SMALL), 1e-9), 1.0)


def _assumptions(fit: Fit, record: Record, core_share: float) -> list[str]:
    large = LARGE / SMALL
    off = {
        kind: demand.at(SMALL) * (1 - core_share + core_share * large) / demand.at(LARGE) - 1
        for kind, demand in fit.demands.items()
    }
    told = ", ".join(f"{kind} {share:+.0%}" for kind, share in off.items())
    shared = "" if record.reactors == 1 else "; its reactors share one queue here, but not there"
    return [
        f"times were measured on {record.processor or 'this host'} by wattio calibrate target, at"
        f" the frequency that it ran at, which counts as the highest; one group of cores{shared}",
        "power, frequencies and gating are those of the description small, not measured here: give"
        " a measured power model with --power-model",
        "all reads are answered from memory: set cache.hit_random to the share in your load",
        f"one share of a core's time grows with the size for all kinds: at {LARGE // 1024} KiB the"
        f" service time is off by: {told}",
        "a request that waits for the device takes half of its core time before and half after it",
        "a write costs the same at every rate; in truth a record of the log holds what was written"
        " within 5 ms, and few writes in it cost more each",
        f"a core's time varies by {VARIATION:g} of its mean",
    ]


def _head(fit: Fit, record: Record) -> list[str]:
    load = ", ".join(f"{value:.1f}" for value in record.load_average)
    kept = sum(one.point.kept for one in fit.residuals)
    windows = sum(one.point.windows for one in fit.residuals)
    settings = (
        f"reactors = {record.reactors}, cache {record.cache_bytes >> 20} MiB,"
        f" write buffer {record.write_buffer_bytes >> 20} MiB, idle = block"
    )
    lines = [
        f"# Measured by wattio calibrate target, {record.begun}, on {record.host}.",
        f"# {record.version or 'wattio-target'}; {settings}; volume of"
        f" {record.size_bytes >> 20} MiB on {record.device}.",
        f"# {len(fit.residuals)} points of {record.measure_s:g} s; load of the machine's"
        f" {record.cores} cores meanwhile: {load or 'not known'}.",
        f"# Windows in which nobody was kept waiting for a core, which alone count: {kept} of"
        f" {windows}.",
        f"# Relative residuals, median: processor time {fit.demand_error:.1%},"
        f" latency {fit.latency_error:.1%}.",
        "#   kind     KiB      1/s   us of core  fitted   latency us  fitted",
    ]
    for one in sorted(
        fit.residuals, key=lambda r: (r.point.kind, r.point.size_bytes, r.point.rate_per_s)
    ):
        p = one.point
        lines.append(
            f"#   {p.kind:<8} {p.size_bytes // 1024:3} {p.rate_per_s:8.0f} {p.demand_us:12.2f}"
            f" {one.demand_us:7.2f} {p.latency_us:12.1f} {one.latency_us:7.1f}"
        )
    return [_line(line) for line in lines]


def _us(value: float) -> str:
    return f"{max(value, 0.001):.4g} us"


def _line(value: str) -> str:
    """Text from outside, without what ends a line or means something to a terminal."""
    return "".join(c if c.isprintable() else "?" for c in value)
