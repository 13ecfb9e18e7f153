"""What cores of machines did during a step: busy, idle, waiting, taken; and a model's joules of it.

`raw/<identity>/<step>.cores.jsonl` has a line for each look at this machine, in the form of `told`,
with `wattio.analysis.cores.Spent` since the first one; `<step>.host_cores.jsonl` has `{"hosts":
{NAME: ...}}` of other machines. Looks are taken just before and just after a step and LOOK_S apart
meanwhile; at the ends of a phase within it they are interpolated, unless the workload has read the
counters at these very ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wattio.analysis import cores
from wattio.analysis.cores import Counter, Spent, Ticks
from wattio.analysis.modelled import Coefficients, Range
from wattio.clock import Instant, Span, now
from wattio.errors import ResultError
from wattio.kinds.measurement import system_status
from wattio.kinds.measurement.system_status import Answer
from wattio.knobs.texts import Texts
from wattio.meters.meter import Facts
from wattio.results.runs import Metrics

KIND, KIND_HOSTS = "cores", "host_cores"

LOOK_S = 0.1
"""How often the counters of this machine are looked at."""

SLOW_S = 0.5
"""How often cores are asked for frequency and idle states, and other machines for anything."""

_STEADY = 1e-3
"""By what share the mean number of cores may be off that of cores that were on all the time."""

_SLACK_NS = 50_000_000
"""By how much a phase may reach beyond the looks: a program's own clock says when it was."""

Look = Callable[[], Mapping[str, Any]]
Ends = tuple[Mapping[int, Ticks], Mapping[int, Ticks]]
"""Ticks of each core of this machine at the start and at the end of a phase."""


def asking(texts: Texts) -> Look | None:
    """What looks at the counters of a machine; None of one that does not show them."""
    if not texts([cores.STAT]):
        return None
    tops = [float(text) for text in texts([cores.FULL_SPEED]).values() if text.strip().isdigit()]
    counter = Counter(1e3 * max(tops) if tops else None)
    slow: dict[str, str] = {}
    asked_s = -SLOW_S

    def look() -> Mapping[str, Any]:
        nonlocal asked_s
        at_s = now().monotonic_ns / 1e9
        if at_s - asked_s >= SLOW_S:
            asked_s = at_s
            slow.update(texts([cores.FREQUENCIES, f"{cores.IDLE_STATES}*e"]))
        fast = texts([cores.DISKS, cores.STAT])
        try:
            seen = cores.look_of({**slow, **fast})
        except ValueError:
            # A machine that is going away; what is told stays what it was.
            return {}
        return cores.as_plain(counter.take(now().monotonic_ns / 1e9, seen))

    return look


def read(folder: Path, step: str, kind: str = KIND) -> tuple[Answer, ...]:
    """The looks of a step, in order; none where nobody looked. Raises ResultError."""
    looks = system_status.read(folder, step, kind)
    whole = Span(step, Instant(0, 0), Instant(0, 1))
    # Read once as they will be: whoever derives from them may rely on it.
    spent(whole, looks) if kind == KIND else spent_at_hosts(whole, looks)
    return looks


def spent(span: Span, looks: Sequence[Answer], ends: Ends | None = None) -> Spent | None:
    """What the cores of this machine did within a span; None if nobody looked.

    `ends` are their ticks at its very ends. Raises ResultError for looks that cannot be read.
    """
    found = _within(span, [(look.at.monotonic_ns, look.status) for look in looks])
    return found if ends is None else _sharpened(found, ends, span.seconds)


def spent_at_hosts(span: Span, looks: Sequence[Answer]) -> dict[str, Spent]:
    """The same of other machines, by their names."""
    by_host: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for look in looks:
        hosts = look.status.get("hosts")
        for name, status in hosts.items() if isinstance(hosts, dict) else ():
            by_host.setdefault(name, []).append((look.at.monotonic_ns, status))
    found = {name: _within(span, own) for name, own in by_host.items()}
    return {name: one for name, one in found.items() if one is not None}


def _within(span: Span, seen: Sequence[tuple[int, Mapping[str, Any]]]) -> Spent | None:
    try:
        looks = [(at_ns, cores.of_plain(status)) for at_ns, status in seen if status]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"records of core use: cannot be read: {error!r}") from None
    ends_ns = span.start.monotonic_ns, span.end.monotonic_ns
    return cores.between(looks, *ends_ns, _SLACK_NS)


def _sharpened(found: Spent | None, ends: Ends, seconds: float) -> Spent | None:
    """With the time of cores by their ticks at both ends; the rest is as the looks have it.

    Looks alone tell of cores that came on or went off meanwhile.
    """
    steady = found is None or math.isclose(found.cores, len(ends[0]), rel_tol=_STEADY)
    if not steady or ends[0].keys() != ends[1].keys():
        return found
    counter = Counter()
    counter.take(0.0, cores.Look(ends[0]))
    exact = counter.take(seconds, cores.Look(ends[1]))
    if found is None:
        return exact
    awake = (exact.busy_s + found.polled_s) / found.awake_s if found.awake_s > 0 else 1.0
    return replace(
        found,
        busy_s=exact.busy_s,
        idle_s=exact.idle_s,
        iowait_s=exact.iowait_s,
        steal_s=exact.steal_s,
        awake_scaled_s=found.awake_scaled_s * awake,
    )


def of_phase(here: Spent | None, at_hosts: Mapping[str, Spent]) -> Metrics:
    """Core-seconds of a phase; those of other machines with their names before."""
    found: Metrics = {} if here is None else dict(_metrics(here))
    for host, own in at_hosts.items():
        found |= {f"{host}.{name}": value for name, value in _metrics(own)}
    return found


def _metrics(of: Spent) -> Iterator[tuple[str, tuple[float, str]]]:
    yield "cores_busy_s", (of.busy_s, "s")
    yield "cores_idle_s", (of.idle_s, "s")
    yield "cores_iowait_s", (of.iowait_s, "s")
    yield "cores_steal_s", (of.steal_s, "s")
    for name, seconds in of.states_s.items():
        yield f"{name}.cores_idle_s", (seconds, "s")


def parts_j(facts: Facts, of: Spent | None) -> dict[str, Range] | None:
    """What an estimate's model makes of a span, in joules by coefficient; None of other meters."""
    if facts.model is None or of is None:
        return None
    return Coefficients.of_plain(facts.model).parts_j(of)
