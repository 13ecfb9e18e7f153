"""Records, spans and samples made up for tests: a session whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from wattio.clock import Instant, Span
from wattio.kinds.measurement.record import Phase, Record
from wattio.kinds.measurement.schema import MeterEntry
from wattio.kinds.measurement.verdicts import Watched
from wattio.meters.meter import Facts
from wattio.recording import Samples

UTC_NS = 1_800_000_000 * 10**9
"""The wall clock at the monotonic clock's zero."""


def instant(at_s: float) -> Instant:
    return Instant(UTC_NS + round(at_s * 1e9), round(at_s * 1e9))


def span(name: str, start_s: float, end_s: float) -> Span:
    return Span(name, instant(start_s), instant(end_s))


def samples(
    times_s: np.ndarray,
    power_w: Callable[[np.ndarray], np.ndarray],
    energy_j: np.ndarray | None = None,
    mark: np.ndarray | None = None,
) -> Samples:
    """Samples at given moments, whose power is a function of time."""
    monotonic_ns = np.round(times_s * 1e9).astype(np.int64)
    absent = np.full(times_s.size, np.nan)
    return Samples(
        UTC_NS + monotonic_ns,
        monotonic_ns,
        np.asarray(power_w(times_s), dtype=float) * np.ones(times_s.size),
        absent if energy_j is None else energy_j,
        absent if mark is None else mark,
    )


def entry(label: str = "pdu", **more: object) -> MeterEntry:
    content = {"name": "snmp://public@pdu/apc-rpdu2", "label": label, "covers": ["server"]}
    return MeterEntry.model_validate(content | more)


def facts(label: str = "pdu", **more: object) -> Facts:
    content: dict[str, object] = {"name": f"snmp://{label}", "what": "a PDU", "period_s": 1.0}
    return Facts(**(content | more))  # type: ignore[arg-type]


def watched(recorded: Samples, label: str = "pdu", **more: object) -> Watched:
    return Watched.of(entry(label), facts(label, **more), recorded)


def record(*phases: Span, meters: dict[str, Facts] | None = None, **more: object) -> Record:
    """The record of an iteration whose phases are these."""
    content: dict[str, object] = {
        "identity": "0123456789abcdef",
        "session": "0001",
        "module": "fio",
        "attempt": 0,
        "start": phases[0].start,
        "end": phases[-1].end,
        "phases": tuple(Phase(phase.name, phase) for phase in phases),
        "meters": meters or {"pdu": facts()},
    }
    return Record(**(content | more))  # type: ignore[arg-type]
