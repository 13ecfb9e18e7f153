"""One load asked of a server: a point of the windows in which nobody was kept waiting for a core.

Others' work on the same cores holds up the server's threads, and this client, for milliseconds at a
time, and what it does to the mean latency says nothing of the server. Windows in which a reactor or
the client waited for a core longer than `WAIT_SHARE_MOST` are left out; the kernel says how long,
and no latency is looked at. Where fewer than a tenth are left, the quietest tenth is taken.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattio.calibration.target.points import MIX, Point
from wattio.calibration.target.threads import Did, Threads, of_thread
from wattio.workloads import nbd_load
from wattio.workloads.nbd_load import Answers, OpenLoad

WINDOW_NS = 5_000_000
WAIT_SHARE_MOST = 0.02
"""Share of a window that a thread may have waited for a core."""
KEPT_LEAST = 0.1
"""At least so many of the windows are kept, the quietest ones."""
QUIET_ENOUGH, AGAIN_MOST = 0.3, 3
"""With a smaller share of quiet windows a load is asked again, up to so many times."""


@dataclass(frozen=True)
class Mark:
    """Sums up to a moment: of the reactors, and of the client's thread."""

    at_ns: int
    reactors: Did
    client: Did


def measure_quietly(
    uri: str, threads: Threads, kind: str, number: int, load: OpenLoad, cancelled: threading.Event
) -> Point:
    """The same as `measure`, again for a few times as long as few windows are quiet."""
    found = measure(uri, threads, kind, number, load, cancelled)
    for _ in range(AGAIN_MOST):
        if found.kept >= QUIET_ENOUGH * found.windows:
            break
        again = measure(uri, threads, kind, number, load, cancelled)
        found = max(found, again, key=lambda one: one.quiet)
    return found


def measure(
    uri: str, threads: Threads, kind: str, number: int, load: OpenLoad, cancelled: threading.Event
) -> Point:
    """Ask a load, and make a point of it. Raises WorkloadFailed, SystemFailed, Cancelled."""
    marks: list[Mark] = []
    own = threading.get_native_id()

    def look(at_ns: int) -> None:
        marks.append(Mark(at_ns, threads.reactors(), of_thread(own)))

    before = threads.others()
    answers = nbd_load.ask(uri, load, look, WINDOW_NS, cancelled)
    others = threads.others() - before
    found = point(kind, number, load, answers, marks)
    # A worker of the kernel may have ended meanwhile, with its account.
    other_s = max(others.ran_ns, 0) / 1e9
    whole_s = (marks[-1].at_ns - marks[0].at_ns) / 1e9
    return replace(found, other_s=other_s * found.span_s / whole_s)


def point(kind: str, number: int, load: OpenLoad, answers: Answers, marks: Sequence[Mark]) -> Point:
    """The point of what was seen; two marks at least."""
    pairs = list(itertools.pairwise(marks))
    # What is left at the end may be too short to tell anything.
    long_enough = [one for one in pairs if one[1].at_ns - one[0].at_ns >= WINDOW_NS // 2] or pairs
    kept = quiet(long_enough)
    chosen = _within(answers.sent_ns, kept) & _within(answers.done_ns, kept)
    # Processor time was spent on what was answered in a window, wherever it was sent.
    answered = int(_within(answers.done_ns, kept).sum())
    latency_us = (answers.done_ns - answers.sent_ns)[chosen] / 1e3
    reactors = sum((end.reactors - begin.reactors for begin, end in kept), Did())
    return Point(
        number=number,
        held_out=0,
        kind=kind,
        size_bytes=load.size_bytes,
        read_share=load.read_share if kind == MIX else float(load.read_share > 0),
        rate_per_s=load.rate_per_s,
        windows=len(long_enough),
        kept=len(kept),
        span_s=sum(end.at_ns - begin.at_ns for begin, end in kept) / 1e9,
        requests=max(answered, 1),
        reactors_s=reactors.ran_ns / 1e9,
        other_s=0.0,
        slices=reactors.slices,
        wait_s=reactors.waited_ns / 1e9,
        latency_us=float(latency_us.mean()) if latency_us.size else 0.0,
        deviation_us=float(latency_us.std()) if latency_us.size else 0.0,
        late_us=float((answers.sent_ns - answers.due_ns)[chosen].mean() / 1e3)
        if latency_us.size
        else 0.0,
    )


Window = tuple[Mark, Mark]


def quiet(windows: Sequence[Window]) -> list[Window]:
    """The windows in which nobody waited for long, in their order; the quietest tenth at least.

    The kernel counts a wait when it ends: the windows before it in which it began are left out too,
    and one more on either side, for what was under way and for what had piled up.
    """
    shares = [0.0] * len(windows)
    for at, window in enumerate(windows):
        waited_ns = _waited_ns(window)
        share = waited_ns / max(window[1].at_ns - window[0].at_ns, 1)
        first = at
        while first > 0 and windows[first - 1][1].at_ns > window[1].at_ns - waited_ns:
            first -= 1
        for touched in range(max(first - 1, 0), min(at + 2, len(windows))):
            shares[touched] = max(shares[touched], share)
    least = sorted(shares)[max(round(KEPT_LEAST * len(windows)), 1) - 1]
    limit = max(least, WAIT_SHARE_MOST)
    return [window for window, share in zip(windows, shares, strict=True) if share <= limit]


def _waited_ns(window: Window) -> int:
    begin, end = window
    return max(
        end.reactors.waited_ns - begin.reactors.waited_ns,
        end.client.waited_ns - begin.client.waited_ns,
    )


def _within(at_ns: NDArray[np.int64], windows: Sequence[Window]) -> NDArray[np.bool_]:
    chosen = np.zeros(len(at_ns), np.bool_)
    for begin, end in windows:
        chosen |= (at_ns >= begin.at_ns) & (at_ns < end.at_ns)
    return chosen
