"""The whole plant: dorado6000 at 10 % pressure, native.

Nobody else has this plant, so its peer is no simulator: a loop around Python's heapq that takes an
event and schedules the next, with as many pending as the plant has tasks on cores. It does nothing
with an event, while the plant's cost includes all of its work.

An exact day of 24 hours is estimated from a part of it, at 6 % pressure; its peer is the same loop
over as many events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any

from timing import BenchError, Goal, Line, Rate, Timed, in_turn
from wattio import _core

PRESSURE = 0.10
DAY_PRESSURE = 0.06
DAY_MINUTES = 24 * 60
DAY_MINUTES_MAX = 20
"""How long an exact day may take."""
SERVER = "dorado6000"
PATTERN = {"read_fraction": 0.7, "random_fraction": 1.0, "io_bytes": 8192}


def with_wattio(text: str, clients: int, iops: float, span_s: float, seed: int) -> dict[str, Any]:
    """One run as `wattio simulate` makes it, latency windows of 0.5 s included; its summary."""
    phases = [{"span_s": span_s, "iops": iops, "pattern": PATTERN}]
    spec = {
        "server": text,
        "policy": {"name": "native", "settings": {}},
        "load": {"kind": "phases", "mode": "clients", "clients": clients, "phases": phases},
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


def with_heapq(events: int, pending: int, seed: int) -> dict[str, Any]:
    """Takes `events` events and schedules one for each, `pending` of them at any time."""
    random = Random(seed)  # noqa: S311 (a simulation, no secret)
    gaps = [random.expovariate(1.0) for _ in range(4096)]
    heap = [(gaps[number], number) for number in range(pending)]
    heapify(heap)
    for number in range(events):
        now, which = heappop(heap)
        heappush(heap, (now + gaps[number & 4095], which))
    return {"events": events}


def lines(
    rounds: int = 7, peer_events: int = 300_000, span_s: float = 8.0, day_span_s: float = 30.0
) -> Iterator[Line]:
    """Run the benchmark. Raises BenchError."""
    yield plant(rounds, peer_events, span_s)
    yield day(rounds, peer_events, day_span_s)


def plant(rounds: int, peer_events: int, span_s: float) -> Line:
    """Events a second."""
    pending, taken = beside_heapq(PRESSURE, rounds, peer_events, span_s)
    return Line(
        "plant",
        "events",
        "heapq loop",
        Rate.of(taken["heapq"], lambda one: one["events"]),
        Rate.of(taken["wattio"], lambda one: one["events"]),
        Goal("ours", 6e6, 12e6),
        f"{SERVER} at {PRESSURE:.0%} pressure, native; the peer is a bare event loop in Python"
        f" with {pending} events pending, no plant",
    )


def day(rounds: int, peer_events: int, span_s: float) -> Line:
    """Simulated minutes in a second."""
    _, taken = beside_heapq(DAY_PRESSURE, rounds, peer_events, span_s)
    events_per_min = taken["wattio"][0].result["events"] / span_s * 60
    ours = Rate.of(taken["wattio"], lambda _: span_s / 60)
    took_min = DAY_MINUTES / ours.median / 60
    return Line(
        "day",
        "minutes",
        "heapq loop",
        Rate.of(taken["heapq"], lambda one: one["events"] / events_per_min),
        ours,
        Goal("ours", DAY_MINUTES / (60 * DAY_MINUTES_MAX)),
        f"{SERVER} at {DAY_PRESSURE:.0%} pressure, native: 24 h of"
        f" {events_per_min * DAY_MINUTES:.2g} events take {took_min:.0f} min of one core"
        f" (estimated from {span_s:.0f} s)",
    )


def beside_heapq(
    pressure: float, rounds: int, peer_events: int, span_s: float
) -> tuple[int, dict[str, list[Timed[dict[str, Any]]]]]:
    """Runs at a pressure in turn with the loop, and how many events that has pending.

    Raises BenchError.
    """
    text = _core.built_in_servers()[SERVER]
    clients = json.loads(_core.check_server(text))["clients"]
    iops = pressure * _core.saturated_iops(text, json.dumps(PATTERN), clients, 1)
    trial = with_wattio(text, clients, iops, 0.5, 1)
    pending = round(trial["utilisation_mean"] * trial["cores_active_mean"])
    taken = in_turn(
        rounds,
        {
            "heapq": lambda seed: with_heapq(peer_events, pending, seed),
            "wattio": lambda seed: with_wattio(text, clients, iops, span_s, seed),
        },
    )
    for one in taken["wattio"]:
        if abs(one.result["iops_mean"] / iops - 1) > 0.02:
            found = one.result["iops_mean"]
            raise BenchError(f"plant: {found:.0f} I/Os per second served of {iops:.0f}")
    return pending, taken
