"""Checking a meter: is it alive, how often does it say something new, how late does it tell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattio.meters.meter import Facts
from wattio.recording.cadence import Step, Timing, Updates, find_step, timing, updates
from wattio.recording.journal import Event
from wattio.recording.recorder import Recorder, Source

_LABEL = "meter"
_FASTER = 5.0
"""So many times its own period a meter is asked, to find out what that really is."""
_RATE_HZ_MAX = 1000.0
_BUSY = "while True: pass"


@dataclass(frozen=True)
class Check:
    """What was found out about a meter; `problems` are in words, none of them if all is well."""

    facts: Facts
    power_w_mean: float | None
    timing: Timing
    updates: Updates
    step: Step | None
    problems: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def check(
    name: str,
    span_s: float,
    folder: Path,
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> Check:
    """Read a meter for `span_s` seconds at rest, and for as long under load on all cores.

    Raises what `Recorder.start` raises. `progress` gets what is done, and the share of it.
    """
    rest_label = "at rest"
    with Recorder([Source(_LABEL, name)], folder / "facts") as recorder:
        facts = recorder.start()[_LABEL]
    rate_hz = None if facts.streams else min(_FASTER / facts.period_s, _RATE_HZ_MAX)
    with Recorder([Source(_LABEL, name, rate_hz)], folder / "check") as recorder:
        recorder.start()
        begun_ns = time.monotonic_ns()
        _pass(span_s, rest_label, progress)
        load_ns = time.monotonic_ns()
        with _Load():
            _pass(span_s, "under load", progress)
        end_ns = time.monotonic_ns()
        recorder.caught_up(_LABEL, end_ns, 3 * facts.period_s)
        samples = recorder.read(_LABEL, begun_ns, end_ns)
        events = recorder.events()
    import numpy as np

    known_w = samples.power_w[np.isfinite(samples.power_w)]
    found = Check(
        facts=facts,
        power_w_mean=float(known_w.mean()) if len(known_w) else None,
        timing=timing(samples, facts.period_s if rate_hz is None else 1 / rate_hz),
        updates=updates(samples),
        step=find_step(samples, load_ns, end_ns),
        problems=(),
    )
    return Check(**{**found.__dict__, "problems": tuple(_problems(found, events))})


class _Load:
    """All cores busy, while entered; programs of their own, which end with it."""

    def __enter__(self) -> None:
        cores = len(os.sched_getaffinity(0))
        command = [sys.executable, "-S", "-c", _BUSY]
        self._programs = [subprocess.Popen(command) for _ in range(cores)]

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()
        for program in self._programs:
            program.wait()


def _pass(span_s: float, what: str, progress: Callable[[str, float], None]) -> None:
    """Let time pass."""
    began_s = time.monotonic()
    while (passed_s := time.monotonic() - began_s) < span_s:
        progress(what, passed_s / span_s)
        time.sleep(min(0.1, span_s - passed_s))
    progress(what, 1.0)


def _problems(found: Check, events: list[Event]) -> list[str]:
    told = [f"{event.kind}: {event.text}" for event in events if event.kind != "missed"]
    if found.timing.samples == 0:
        told.append("no readings")
    elif found.power_w_mean is None:
        told.append("no reading has a power")
    elif found.updates.changes == 0:
        what = "its counter" if found.updates.by == "mark" else "its power"
        told.append(f"{what} did not change, at rest or under load: the meter is frozen")
    return told
