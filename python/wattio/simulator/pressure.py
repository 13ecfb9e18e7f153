"""The pressure that a trace puts on a server: what it asks for, as a share of what is possible.

The PACER document, section III-A3: the trace is cut into segments of 20 minutes; of each segment t
the mean rate I_t, the read ratio R_t, the random ratio A_t and the sizes S_t are taken; a benchmark
with these is run at the rate I_t and again without a limit, and

    pressure = 100 * sum_t achieved(I_t, R_t, A_t, S_t) / sum_t achieved(max, R_t, A_t, S_t).

Here the benchmark runs on the simulated server at full speed, with the clients of its description.
Where PACER's text leaves something open, or a simulated client cannot follow it:

- The sizes S_t are replayed as their mean, since a phase has one size. The plant's work is linear
  in the size, so the mean keeps the work of a segment; lost is how work differs from request to
  request, and between the sizes of reads and those of writes.
- Ratios are replayed in whole per cents and sizes in steps of 512 B, so that like segments need one
  measurement.
- Up to half of what is possible the clients get all their answers in time, and what is achieved
  is the measured rate itself; above that it is simulated. A replay of a few requests a second would
  add nothing but the noise of its random arrivals.
- The last segment may be shorter (or up to a tenth longer) than the others; sums weigh segments by
  their span. For equal segments that is the formula above.
- A segment without requests has pressure 0. It has no mix to measure, so its possible rate counts
  as the mean of the other segments'.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattio import _core
from wattio.errors import Cancelled, InputError
from wattio.simulator import saturation, simulation, traces
from wattio.simulator.native import NativeSimulator
from wattio.simulator.profile import Pattern

SEGMENT_S = 1200.0
"""The document's 20 minutes."""

THRESHOLDS_PERCENT = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 90.0)
"""Where the distribution of pressure over time (PACER's figure 5) is told in numbers."""

_KEEPS_UP_BELOW = 0.5
_SIZE_STEP_BYTES = 512
_RATE_MAX = 1e9  # the simulator's limit; requests that close together saturate any server
_REPLAY_S = 2.0
_WARMUP_S = 0.5
_SEED = 1

Watch = Callable[[float], bool]
"""Gets the share done, 0 to 1; returns whether to go on."""


@dataclass(frozen=True)
class Segment:
    """One segment and its pressure.

    `read_share`, `random_share` and `size_bytes` (`{p50, p95, max, mean, common}` in bytes) are
    None without requests, and so is `iops_possible`: there is no mix to measure it with.
    """

    start_s: float
    span_s: float
    ios: int
    iops_mean: float
    read_share: float | None
    random_share: float | None
    size_bytes: dict[str, Any] | None
    iops_achieved: float
    iops_possible: float | None
    pressure_percent: float


@dataclass(frozen=True)
class Pressure:
    """The pressure of a trace, in segments of `segment_s`, on a server with `clients` clients."""

    server: str
    clients: int
    segment_s: float
    segments: tuple[Segment, ...]

    @property
    def span_s(self) -> float:
        """What the trace lasts, in seconds."""
        return sum(segment.span_s for segment in self.segments)

    @property
    def percent(self) -> float:
        """Pressure of the whole trace, 0 to 100."""
        busy = [segment for segment in self.segments if segment.iops_possible is not None]
        possible = sum((segment.iops_possible or 0.0) * segment.span_s for segment in busy)
        achieved = sum(segment.iops_achieved * segment.span_s for segment in busy)
        busy_s = sum(segment.span_s for segment in busy)
        return 100 * achieved / possible * busy_s / self.span_s

    def time_share_below(self, percent: float) -> float:
        """Share of the time in segments of less pressure than that: the cdf over time."""
        below = (one.span_s for one in self.segments if one.pressure_percent < percent)
        return sum(below) / self.span_s

    def percentile(self, share: float) -> float:
        """The least pressure that is not exceeded for `share` (0 to 1) of the time, in per cent."""
        passed_s = 0.0
        ordered = sorted(self.segments, key=lambda one: one.pressure_percent)
        for segment in ordered:
            passed_s += segment.span_s
            if passed_s >= share * self.span_s * (1 - 1e-12):
                return segment.pressure_percent
        return ordered[-1].pressure_percent

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data, one row for each segment."""
        return {
            "server": self.server,
            "clients": self.clients,
            "segment_s": self.segment_s,
            "span_s": self.span_s,
            "ios": sum(segment.ios for segment in self.segments),
            "segments_total": len(self.segments),
            "segments_empty": sum(segment.ios == 0 for segment in self.segments),
            "pressure_percent": self.percent,
            "pressure_percent_p50": self.percentile(0.5),
            "pressure_percent_p95": self.percentile(0.95),
            "pressure_percent_max": self.percentile(1.0),
            "time_share_below": [
                {"pressure_percent": limit, "share": self.time_share_below(limit)}
                for limit in THRESHOLDS_PERCENT
            ],
            "segments": [asdict(segment) for segment in self.segments],
        }


def read_segments(
    path: Path,
    segment_s: float = SEGMENT_S,
    watch: Watch | None = None,
    format: str | None = None,
    columns: str | None = None,
) -> list[dict[str, Any]]:
    """Cut a trace into segments of `segment_s` seconds, as `wattio._core.trace_segments` does.

    Raises InputError where the trace is damaged, holds no requests or has no rate.
    """
    found: list[dict[str, Any]] = json.loads(
        _core.trace_segments(str(path), segment_s, watch, format, columns)
    )
    if not found:
        raise InputError(f"{path}: {traces.NOTHING}")
    if any(one["iops_mean"] is None for one in found):
        raise InputError(f"{path}: all requests come at the same time: there is no rate to replay")
    return found


def measure(
    found: Sequence[dict[str, Any]],
    server: str,
    segment_s: float = SEGMENT_S,
    watch: Watch | None = None,
) -> Pressure:
    """Replay segments, as `read_segments` gives them, on a server (built-in name or TOML file).

    Raises InputError for a server that is not known, Cancelled when `watch` returns False.
    """
    text = simulation.server_text(server)
    clients = int(json.loads(_core.check_server(text))["clients"])
    done: list[Segment] = []
    for at, segment in enumerate(found):
        if watch is not None and not watch(at / len(found)):
            raise Cancelled("stopped; nothing was written")
        done.append(_replay(segment, server, text, clients))
    return Pressure(server, clients, segment_s, tuple(done))


def pattern_of(segment: dict[str, Any]) -> Pattern:
    """What stands for a segment's mix: ratios in whole per cents, the mean size in 512 B steps."""
    steps = max(1, round(segment["size_bytes"]["mean"] / _SIZE_STEP_BYTES))
    return Pattern(
        read_fraction=round(segment["read_share"], 2),
        random_fraction=round(segment["random_share"], 2),
        io_bytes=steps * _SIZE_STEP_BYTES,
    )


def _replay(segment: dict[str, Any], server: str, text: str, clients: int) -> Segment:
    if segment["ios"] == 0:
        return Segment(**segment, iops_achieved=0.0, iops_possible=None, pressure_percent=0.0)
    pattern = pattern_of(segment)
    asked = segment["iops_mean"]
    possible = saturation.saturated_iops(text, pattern, clients)
    if possible == 0:
        raise InputError(
            f"{server}: not one request of {pattern.io_bytes} bytes (the mean of the segment from"
            f" {segment['start_s']:g} s on) is answered in a second of full speed"
        )
    achieved = asked
    if asked > _KEEPS_UP_BELOW * possible:
        achieved = min(asked, possible, _limited(pattern, asked, server, clients))
    return Segment(
        **segment,
        iops_achieved=achieved,
        iops_possible=possible,
        pressure_percent=100 * achieved / possible,
    )


def _limited(pattern: Pattern, iops: float, server: str, clients: int) -> float:
    """I/Os per second that are answered where clients ask for `iops`."""
    run = simulation.Request(
        server=server,
        policy="native",
        load={"pattern": pattern, "iops": min(iops, _RATE_MAX), "clients": clients},
        duration_s=_REPLAY_S,
        warmup_s=_WARMUP_S,
        seed=_SEED,
    )
    return float(NativeSimulator().simulate(run).summary["iops_mean"])
