"""The sampling loops: which meters share a thread, and what a thread does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from wattio.recording.deadlines import Deadlines
from wattio.recording.watch import Watched

QUICK_S = 0.001
"""A meter whose reading took no longer may share a thread with others of its rate."""

AT_ONCE_HZ = 100.0
"""Up to this rate every reading is written at once; above, several times a second."""

_EVENT_WAIT_NS = 50_000_000


def plan(
    sources: Iterable[tuple[Watched, float | None]],
) -> list[tuple[float | None, list[Watched]]]:
    """Threads: a period in seconds (None if the meter sends by itself), and its meters."""
    threads: list[tuple[float | None, list[Watched]]] = []
    shared: dict[float, list[Watched]] = {}
    for watched, rate_hz in sources:
        assert watched.facts is not None
        period_s = watched.facts.period_s if rate_hz is None else 1.0 / rate_hz
        watched.file.at_once = not watched.facts.streams and period_s * AT_ONCE_HZ >= 1.0
        if watched.facts.streams:
            watched.file.at_once = watched.facts.period_s * AT_ONCE_HZ >= 1.0
            threads.append((None, [watched]))
        elif watched.read_s > QUICK_S:
            threads.append((period_s, [watched]))
        else:
            shared.setdefault(period_s, []).append(watched)
    return threads + [(period_s, group) for period_s, group in shared.items()]


def run(period_s: float | None, group: Sequence[Watched], stopped: threading.Event) -> None:
    """Sample meters until stopped; a lost one goes on in a thread of its own when it is back."""
    if period_s is None:
        for watched in group:
            _stream(watched, stopped)
    else:
        _sample(period_s, list(group), stopped)


def _stream(watched: Watched, stopped: threading.Event) -> None:
    while not stopped.is_set():
        if not watched.sample() and (watched.refused or not watched.regain()):
            return


def _sample(period_s: float, group: list[Watched], stopped: threading.Event) -> None:
    period_ns = max(1, round(period_s * 1e9))
    deadlines = Deadlines(period_ns, time.monotonic_ns() + period_ns)
    monotonic_ns, sleep, is_stopped = time.monotonic_ns, time.sleep, stopped.is_set
    while group and not is_stopped():
        left_ns = deadlines.due_ns - monotonic_ns()
        if left_ns > _EVENT_WAIT_NS:
            if stopped.wait(left_ns / 1e9):
                return
        elif left_ns > 0:
            sleep(left_ns / 1e9)
        lost = [watched for watched in group if not watched.sample()]
        if lost:
            group = [watched for watched in group if watched not in lost]
            for watched in lost:
                regain_apart(watched, period_s, stopped)
        skipped = deadlines.advance(monotonic_ns())
        if skipped:
            for watched in group:
                watched.missed(skipped)


def regain_apart(watched: Watched, period_s: float, stopped: threading.Event) -> None:
    """Wait for a lost meter in a thread of its own, so that the others do not wait with it."""
    if watched.refused:
        return

    def wait_and_go_on() -> None:
        if watched.regain():
            _sample(period_s, [watched], stopped)

    threading.Thread(target=wait_and_go_on, daemon=True, name=watched.label).start()
