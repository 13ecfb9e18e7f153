"""The target under laws, held against the simulation of the same law over the same load.

Reads from memory come as an open load for some time, of which the first part is the law's to
learn in, and does not count, here as in the simulation. What follows counts whole, with no window
left out: a law decides by all of them. How long reactors waited for a core is told beside it, since
on a host where they do the law meets latencies that no description foresees.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from wattio.calibration.target.comparison import BOUND
from wattio.calibration.target.threads import Did, Threads
from wattio.errors import SystemFailed
from wattio.files.document import Strict
from wattio.simulator.native import NativeSimulator
from wattio.simulator.simulation import Request, Setting
from wattio.workloads import nbd_load
from wattio.workloads.nbd_load import OpenLoad

LAWS: Mapping[str, Mapping[str, Setting]] = {
    "native": {},
    "pacer": {"plf": 0.2},
    "foresight": {"plf": 0.2},
}
"""The laws with their settings; full speed first."""
SHARES = (0.05, 0.3)
"""Rates, as shares of what a client reaches at depth 32."""
LEARNING = 0.4
"""The share of the time that a law has for learning."""
WAITED_MOST = 0.02
"""Reactors that waited for a core for a larger share of the time were not left alone."""

_LOOK_NS = 100_000_000


class Governed(Strict):
    """A load under a law: rates in requests a second, shares and cores as means over `span_s`."""

    policy: str
    idle: str
    rate_per_s: float = Field(gt=0)
    learning_s: float = Field(gt=0)
    span_s: float = Field(gt=0)
    windows_bounded: int = Field(ge=0)
    windows_over: int = Field(ge=0)
    reactors_on: float = Field(ge=0)
    busy: float = Field(ge=0)
    latency_us: float = Field(gt=0)
    wait_share: float = Field(ge=0)


@dataclass(frozen=True)
class Foreseen:
    """What was measured beside what the simulation says."""

    measured: Governed
    reactors_on: float
    busy: float
    latency_us: float

    def off(self, name: str) -> float:
        """Relative deviation of a prediction: `reactors_on`, `busy` or `latency_us`."""
        measured: float = getattr(self.measured, name)
        predicted: float = getattr(self, name)
        return predicted / measured - 1 if measured > 0 else 0.0

    @property
    def is_within(self) -> bool:
        """Whether all three are within what is asked for."""
        return all(abs(self.off(name)) <= BOUND for name in ("reactors_on", "busy", "latency_us"))

    @property
    def is_disturbed(self) -> bool:
        """Whether reactors were kept waiting for a core by others."""
        return self.measured.wait_share > WAITED_MOST


@dataclass(frozen=True)
class _Mark:
    at_ns: int
    status: Mapping[str, Any]
    reactors: Did


def measure(
    uri: str,
    status: Callable[[], Mapping[str, Any] | None],
    threads: Threads,
    law: tuple[str, str],
    load: OpenLoad,
    cancelled: threading.Event,
) -> Governed:
    """Ask a load of a target under a law (its name, and what idle reactors do).

    Raises WorkloadFailed, SystemFailed, Cancelled.
    """
    learning_ns = LEARNING * load.requests / load.rate_per_s * 1e9
    marks: list[_Mark] = []

    def look(at_ns: int) -> None:
        if not marks and at_ns >= learning_ns:
            marks.append(_Mark(at_ns, _told(status), threads.reactors()))

    answers = nbd_load.ask(uri, load, look, _LOOK_NS, cancelled)
    if not marks:
        raise SystemFailed(f"{uri}: {load.requests} requests ended before the law had learned")
    begin, end = marks[0], _Mark(int(answers.done_ns.max()), _told(status), threads.reactors())
    span_s = (end.at_ns - begin.at_ns) / 1e9
    did = end.reactors - begin.reactors
    # While the target told how it stands, nobody took answers: what was sent since then counts.
    chosen = answers.sent_ns > begin.at_ns + _LOOK_NS
    if not chosen.any() or span_s <= 0:
        raise SystemFailed(f"{uri}: no request was left to count")
    counts, before = end.status["counts"], begin.status["counts"]
    windows_s = (end.status["utc_ns"] - begin.status["utc_ns"]) / 1e9
    return Governed(
        policy=law[0],
        idle=law[1],
        rate_per_s=load.rate_per_s,
        learning_s=begin.at_ns / 1e9,
        span_s=span_s,
        windows_bounded=counts["windows_bounded"] - before["windows_bounded"],
        windows_over=counts["violations"] - before["violations"],
        reactors_on=(counts["reactors_on_s"] - before["reactors_on_s"]) / windows_s,
        busy=did.ran_ns / 1e9 / span_s,
        latency_us=float((answers.done_ns - answers.sent_ns)[chosen].mean()) / 1e3,
        wait_share=did.waited_ns / 1e9 / span_s,
    )


def _told(status: Callable[[], Mapping[str, Any] | None]) -> Mapping[str, Any]:
    told = status()
    if told is None or "counts" not in told:
        raise SystemFailed("the target does not report the state of its law")
    return told


def foresee(
    server: Path, measured: Governed, size_bytes: int, cancelled: threading.Event | None = None
) -> Foreseen:
    """Simulate what was measured. Raises InputError, Cancelled."""
    request = Request(
        server=str(server),
        policy=measured.policy,
        settings=LAWS[measured.policy],
        load={
            "pattern": "Rand_RW",
            "iops": measured.rate_per_s,
            "read_fraction": 1.0,
            "io_bytes": size_bytes,
            "open": True,
        },
        duration_s=measured.span_s,
        warmup_s=measured.learning_s,
    )
    summary = NativeSimulator().simulate(request, cancelled=cancelled).summary
    on = float(summary["cores_active_mean"])
    # A reactor that looks for work takes its core whole.
    busy = on if measured.idle == "poll" else float(sum(summary["cores_busy_clients"]))
    return Foreseen(measured, on, busy, float(summary["latency_us_mean"]))
