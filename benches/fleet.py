"""Fluid servers beside the event simulator: the same server under the same steady load.

The peer is our own exact simulator, which takes every request as events; a fluid server goes by
rates and formulas under the same driver and law. Both step the law every half second. The fluid's
counts and means are drawn, as in a fleet whose policies steer by latency, so that nothing is
skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from timing import BenchError, Goal, Line, Rate, in_turn
from wattio import _core

PRESSURE = 0.05
SERVER = "small"
POLICY = "pacer"
PATTERN = {"read_fraction": 0.7, "random_fraction": 1.0, "io_bytes": 8192}
DAY_S = 86_400.0
RATIO_LEAST = 1_000.0
POWER_OFF_MAX = 0.03
"""Greatest difference of their mean powers: learning at full speed is more of a minute."""


def with_events(text: str, iops: float, span_s: float, seed: int) -> dict[str, Any]:
    """One run as `wattio simulate` makes it; its mean power."""
    phases = [{"span_s": span_s, "iops": iops, "pattern": PATTERN}]
    spec = {
        "server": text,
        "policy": {"name": POLICY, "settings": {}},
        "load": {"kind": "phases", "mode": "open", "clients": 1, "phases": phases},
        "warmup_s": 0.0,
        "duration_s": None,
        "window_s": 0.5,
        "seed": seed,
    }
    run = _core.Simulation(json.dumps(spec))
    while run.advance(3600.0) < 1:
        pass
    summary: dict[str, Any] = json.loads(run.summary())
    return summary


def with_fluid(text: str, iops: float, span_s: float, seed: int) -> dict[str, Any]:
    """One server of a fleet, on one core; its totals."""
    member = {
        "server": SERVER,
        "seed": seed,
        "clients": None,
        "dispersion": 1.0,
        "parts": [[span_s, iops, *(float(value) for value in PATTERN.values())]],
        "span_s": span_s,
    }
    batch = {
        "servers": {SERVER: text},
        "policy": {"name": POLICY, "settings": {}},
        "bounds": ["mean 20%"],
        "noise": True,
        "skip": True,
        "threads": 1,
        "members": [member],
    }
    answer = _core.run_fleet(json.dumps(batch))
    if answer is None:
        raise BenchError("fleet: the batch was stopped")
    totals: dict[str, Any] = json.loads(answer)["members"][0]
    return totals


def lines(
    rounds: int = 7, events_span_s: float = 60.0, fluid_span_s: float = DAY_S
) -> Iterator[Line]:
    """One line: server-days in a second. Raises BenchError."""
    text = _core.built_in_servers()[SERVER]
    clients = json.loads(_core.check_server(text))["clients"]
    iops = PRESSURE * _core.saturated_iops(text, json.dumps(PATTERN), clients, 1)
    taken = in_turn(
        rounds,
        {
            "events": lambda seed: with_events(text, iops, events_span_s, seed),
            "fluid": lambda seed: with_fluid(text, iops, fluid_span_s, seed),
        },
    )
    for exact, fluid in zip(taken["events"], taken["fluid"], strict=True):
        watts = [one.result["power_w_mean"] for one in (exact, fluid)]
        if abs(watts[1] / watts[0] - 1) > POWER_OFF_MAX:
            raise BenchError(f"fleet: {watts[1]:.1f} W by the fluid, {watts[0]:.1f} W by events")
    yield Line(
        "fleet",
        "server-days",
        "event simulator",
        Rate.of(taken["events"], lambda _: events_span_s / DAY_S),
        Rate.of(taken["fluid"], lambda _: fluid_span_s / DAY_S),
        Goal("ratio", RATIO_LEAST),
        f"{SERVER} at {PRESSURE:.0%} pressure under {POLICY}; the peer's day is estimated from"
        f" {events_span_s:.0f} s",
    )
