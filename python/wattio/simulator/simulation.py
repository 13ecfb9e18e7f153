"""Simulated runs: from what a user names to what the native simulator takes, and back.

`NativeSimulator.simulate` plays a request, under a law or by the oracle.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattio import _core
from wattio.analysis.histogram import percentiles
from wattio.errors import Cancelled, InputError, unusable
from wattio.files.document import another_kind_of, text_of
from wattio.simulator import profile as profiles
from wattio.simulator import saturation, server_power, traces
from wattio.simulator.profile import PATTERNS, Pattern

Progress = Callable[[float], None]
Setting = float | int | bool | str


ANSWERED_LEAST = 0.98
"""A run that answers less than this share of what its native twin answers keeps no bound, if
requests come whatever it does: what it did not answer has no latency to judge it by. The oracle
answers as much."""

OVERLOADED_FROM = 0.01
"""A run that leaves more than this share of its requests unanswered has more than it can do."""

_UNDER_WAY = 10
"""So many requests may be under way at the end of any run."""

PRESSURE_ALLOWED = "above 0 and at most 1"

CLIENTS_MOST = 1_000_000
"""So many clients a load may have, about 100 MB; with more, all would be requests that wait."""

CLIENTS_ALLOWED = "allowed is 1 to 1000000, as the requests of all of them are kept in memory"

IO_BYTES_MOST = 2**30
IO_BYTES_ALLOWED = "1 B to 1 GiB"
"""How large a request may be, as the simulator has it."""


@dataclass(frozen=True)
class Request:
    """One run to simulate.

    `server` is the name of a built-in description or a path to a TOML file. `load` is one of
    `{"pattern": "Rand_RW", "pressure": 0.1}`, `{"pattern": ..., "iops": 5000.0}`,
    `{"trace": "path", "rate_scale": 1.0, "time_scale": 1.0}` (with `"start_s"` to leave out its
    beginning, and with `"format"` or `"columns"` where its format is not to be found by the
    content), `{"profile": "path"}` or
    `{"phases": [{"span_s": 20.0, "pattern": "Rand_RW", "pressure": 0.03, "io_bytes": 8192}]}`; all
    but the trace may carry `"open": True` and `"clients": 900`. A pressure of 1 means as fast as
    the clients go. `duration_s` None means: to the load's end. `power_model` is the path of a
    `power-model.toml` that the power of the server's cores is taken from. `bounds` are told to the
    policy as `wattio.simulator.bounds.Bound` reads them; none: what the policy's own settings say.
    """

    server: str
    policy: str
    load: Mapping[str, Any]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    duration_s: float | None = None
    warmup_s: float = 10.0
    window_s: float = 0.5
    seed: int = 1
    power_model: str | None = None
    bounds: tuple[str, ...] = ()


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


def server_text(server: str) -> str:
    """The TOML text of a server description, by built-in name or by path. Raises InputError."""
    built_in = _core.built_in_servers()
    if server in built_in:
        return built_in[server]
    path = Path(server)
    if path.suffix != ".toml" and not path.exists():
        names = ", ".join(sorted(built_in))
        raise InputError(f'unknown server "{server}"; built in are {names}, or give a TOML file')
    text = text_of(path)
    try:
        _core.check_server(text)
    except InputError as error:
        raise InputError(f"{path}: {another_kind_of(text, 'cores') or error}") from error
    return text


def described(server: str, power_model: str | None) -> str:
    """The TOML text of a server, with a file's power model in it. Raises InputError."""
    text = server_text(server)
    return text if power_model is None else server_power.apply(text, Path(power_model)).text


def play(
    run: _core.Simulation,
    request: Request,
    *,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
) -> Outcome:
    """Take a prepared run to its end. Raises Cancelled when `cancelled` is set."""
    began = time.perf_counter()
    # Short enough for a prompt Ctrl-C and a moving bar, long enough to cost nothing.
    while (share := run.advance(0.5)) < 1.0:
        if cancelled is not None and cancelled.is_set():
            raise Cancelled("stopped")
        if progress is not None:
            progress(share)
    wall_s = time.perf_counter() - began
    if progress is not None:
        progress(1.0)
    told = json.loads(run.summary())
    if "trace" in request.load and not told["ios"]:
        # Rare enough to read it again: it may be quiet for so long, or hold nothing at all.
        traces.of_load(Path(request.load["trace"]), **reading_of(request.load))
    summary = {
        "policy": request.policy,
        "settings": dict(request.settings),
        "server": request.server,
        "seed": request.seed,
        "warmup_s": request.warmup_s,
        **told,
    }
    summary |= percentiles(*run.latency_histogram(), {"latency_us_p9999": 0.9999})
    if "profile" in request.load:
        day = profiles.load(Path(request.load["profile"]))
        summary["profile"] = {
            "name": day.name,
            "span_s": day.span_s,
            "simulated_s": day.simulated_s,
            "compression": day.compression,
        }
    if request.power_model is not None:
        applied = server_power.apply(server_text(request.server), Path(request.power_model))
        summary["power_model"] = applied.facts
    summary["events_per_s"] = summary["events"] / wall_s if wall_s > 0 else None
    summary["wall_s"] = wall_s
    return Outcome(
        request, summary, run.windows(), run.window_histograms(), run.latency_histogram()
    )


def specification(request: Request, cancelled: threading.Event | None = None) -> dict[str, Any]:
    """The native simulator's description of a run. Raises InputError, and Cancelled when it is set.

    Where the load has a pressure, the rate at which the server saturates is measured first.
    """
    _refuse_infinite("", asdict(request))
    server = described(request.server, request.power_model)
    return {
        "server": server,
        "policy": {"name": request.policy, "settings": dict(request.settings)},
        "bounds": list(request.bounds),
        "load": _load(request, server, cancelled),
        "warmup_s": request.warmup_s,
        "duration_s": request.duration_s,
        "window_s": request.window_s,
        "seed": request.seed,
    }


def _refuse_infinite(place: str, value: object) -> None:
    """What the native side's JSON has no word for: NaN and infinity. Raises InputError."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_infinite(f"{place}.{key}" if place else str(key), inner)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            _refuse_infinite(f"{place}[{at + 1}]", inner)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{place}: {unusable(value)}")


def _load(request: Request, server: str, cancelled: threading.Event | None) -> dict[str, Any]:
    load = request.load
    if "trace" in load:
        return {
            "kind": "trace",
            "path": str(load["trace"]),
            "start_s": float(load.get("start_s", 0.0)),
            "rate_scale": float(load.get("rate_scale", 1.0)),
            "time_scale": float(load.get("time_scale", 1.0)),
            **reading_of(load),
        }
    clients = load.get("clients")
    if clients is None:
        clients = json.loads(_core.check_server(server))["clients"]
    elif not 1 <= clients <= CLIENTS_MOST:
        raise InputError(f"clients {clients}: {CLIENTS_ALLOWED}")
    open_loop = bool(load.get("open", False))
    phases = [
        _phase(phase, server, clients, cancelled, open_loop=open_loop)
        for phase in _phases(load, request)
    ]
    mode = "open" if open_loop else "clients"
    return {"kind": "phases", "mode": mode, "clients": clients, "phases": phases}


def reading_of(load: Mapping[str, Any]) -> dict[str, str | None]:
    """How the trace of a load is read: the keywords of `wattio._core.trace_info`."""
    return {"format": load.get("format"), "columns": load.get("columns")}


def _phases(load: Mapping[str, Any], request: Request) -> list[Mapping[str, Any]]:
    """The phases of a load as a user names them, each with its span."""
    if "profile" in load:
        day = profiles.load(Path(load["profile"]))
        return [
            {
                "span_s": segment.span_s / day.compression,
                "pattern": segment.pattern,
                "pressure": segment.pressure,
                "iops": segment.iops,
            }
            for segment in day.segments
        ]
    if "phases" in load:
        return list(load["phases"])
    span_s = 60.0 if request.duration_s is None else request.duration_s
    return [{**load, "span_s": span_s}]


def _phase(
    phase: Mapping[str, Any],
    server: str,
    clients: int,
    cancelled: threading.Event | None,
    *,
    open_loop: bool,
) -> dict[str, Any]:
    pattern = _pattern(phase)
    iops = phase.get("iops")
    pressure = phase.get("pressure")
    if (iops is None) == (pressure is None):
        raise InputError("a load needs a pressure or a rate in IOPS, and not both")
    if pressure is not None:
        if not 0 < pressure <= 1:
            raise InputError(f"pressure {pressure}: allowed is {PRESSURE_ALLOWED}")
        # At full pressure clients send as fast as they are answered; an open load has no such
        # clients and gets the rate that they reach.
        unlimited = pressure == 1 and not open_loop
        saturated = (
            None if unlimited else saturation.saturated_iops(server, pattern, clients, cancelled)
        )
        iops = None if saturated is None else pressure * saturated
    return {"span_s": phase["span_s"], "iops": iops, "pattern": _as_dict(pattern)}


def _pattern(phase: Mapping[str, Any]) -> Pattern:
    named = phase["pattern"]
    if isinstance(named, Pattern):
        base = named
    elif named in PATTERNS:
        base = PATTERNS[named]
    else:
        raise InputError(f'unknown pattern "{named}"; allowed are {", ".join(PATTERNS)}')
    io_bytes = int(phase.get("io_bytes", base.io_bytes))
    if not 1 <= io_bytes <= IO_BYTES_MOST:
        raise InputError(f"a request of {io_bytes} bytes: allowed is {IO_BYTES_ALLOWED}")
    return Pattern(
        float(phase.get("read_fraction", base.read_fraction)),
        float(phase.get("random_fraction", base.random_fraction)),
        io_bytes,
    )


def _as_dict(pattern: Pattern) -> dict[str, Any]:
    return {
        "read_fraction": pattern.read_fraction,
        "random_fraction": pattern.random_fraction,
        "io_bytes": pattern.io_bytes,
    }


def answered_share(ours: Mapping[str, Any], native: Mapping[str, Any]) -> float | None:
    """Requests that a run answered over those of its twin, from both summaries.

    None where the twin answered none.
    """
    return ours["ios"] / native["ios"] if native["ios"] else None


def answers_enough(ours: Outcome, native: Outcome) -> bool:
    """Whether a run answered so much of what its twin did that its latency says how it fared.

    Clients that wait for their answers send less where latency is higher; nothing is left out then.
    """
    missing = native.summary["ios"] - ours.summary["ios"]
    few = missing <= max((1 - ANSWERED_LEAST) * native.summary["ios"], _UNDER_WAY)
    return few or not _comes_anyway(ours.request)


def _comes_anyway(request: Request) -> bool:
    """Whether requests come whatever the server does: those of a trace, or of an open load."""
    return "trace" in request.load or bool(request.load.get("open"))


def overload(request: Request, summary: Mapping[str, Any]) -> str | None:
    """What a run left unanswered at its end, in words, where that is more than chance.

    Clients that wait for their answers always have some: only requests that come whatever the
    server does pile up. None also for results of earlier versions, which do not say.
    """
    waiting = summary.get("ios_waiting_end")
    if waiting is None or not _comes_anyway(request):
        return None
    there = summary["ios"] + waiting
    if waiting <= max(OVERLOADED_FROM * there, _UNDER_WAY):
        return None
    return f"{waiting:,} of {there:,} requests were not answered at the end, {waiting / there:.1%}"


def relate(outcome: Outcome, native: Outcome, plf: float | None) -> dict[str, Any]:
    """The keys `relative_to_native` and `bound`, from a run and its native twin (same seed).

    Ratios are the run's value over the twin's; a ratio that has no value is None. The bound
    (PACER document, section IV-C) is kept when the mean latency is at most (1 + plf) times the
    twin's, and not where less than ANSWERED_LEAST of what the twin answered was; it is None where
    `plf` is, as other bounds were given. `violation_share` is the share of the latency windows in
    which both answered requests and the run's mean was above that.
    """
    ours, theirs = outcome.summary, native.summary

    def ratio(ours: float | None, theirs: float | None) -> float | None:
        return None if ours is None or not theirs else ours / theirs

    latency = ratio(ours["latency_us_mean"], theirs["latency_us_mean"])
    count = min(len(outcome.windows["start_s"]), len(native.windows["start_s"]))
    run_us = outcome.windows["latency_us_mean"][:count]
    twin_us = native.windows["latency_us_mean"][:count]
    both = ~(np.isnan(run_us) | np.isnan(twin_us))
    bound: dict[str, Any] | None = None
    if plf is not None:
        above = run_us[both] > (1 + plf) * twin_us[both]
        kept = None if latency is None else bool(latency <= 1 + plf)
        bound = {
            "plf": plf,
            "latency_us_mean_ok": kept if answers_enough(outcome, native) else False,
            "violation_share": float(above.mean()) if above.size else None,
        }
    return {
        "relative_to_native": {
            "iops": ratio(ours["iops_mean"], theirs["iops_mean"]),
            "iops_per_watt": ratio(ours["iops_per_watt"], theirs["iops_per_watt"]),
            "power_w_mean": ratio(ours["power_w_mean"], theirs["power_w_mean"]),
            "latency_us_mean": latency,
            "latency_us_p99": ratio(ours["latency_us_p99"], theirs["latency_us_p99"]),
            "background_rate": ratio(ours["background_rate_mean"], theirs["background_rate_mean"]),
        },
        "bound": bound,
    }
