"""What the cores of a machine did, from counters of its kernel: core-seconds busy, idle, waiting.

Sources: /proc/stat (proc(5): ticks of each core), cpuidle (seconds in each idle state:
Documentation/admin-guide/pm/cpuidle.rst of Linux), cpufreq, /proc/diskstats. Files come as texts,
so that they may be those of another machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

STAT = "proc/stat"
DISKS = "proc/diskstats"
_CPU = "sys/devices/system/cpu"
FREQUENCIES = f"{_CPU}/cpu[0-9]*/cpufreq/scaling_cur_freq"
FULL_SPEED = f"{_CPU}/cpu[0-9]*/cpufreq/cpuinfo_max_freq"
IDLE_STATES = f"{_CPU}/cpu[0-9]*/cpuidle/state[0-9]*/"
"""Where they are below the root; the last one is of `name` and `time`."""

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
"""What /proc/stat counts in."""

POLLING = "POLL"
"""The idle state in which a core runs a loop: idle to the kernel, and busy to its power."""

# Parts of a disk, and devices that stand on others whose requests are counted below.
_NO_DISK = re.compile(
    r"(loop|ram|zram|dm-|md|sr|fd)\d+|(nvme\d+n\d+|mmcblk\d+)p\d+|(sd|vd|xvd|hd)[a-z]+\d+"
)
_PLACE = re.compile(rf"{_CPU}/cpu(\d+)/(?:cpufreq|cpuidle/(state\d+))/(\w+)", re.ASCII)
_COUNT = re.compile(r"\d{1,20}", re.ASCII)


class Ticks(NamedTuple):
    """Ticks of a core: in tasks and interrupts, idle, idle while a disk works for it, stolen."""

    busy: int
    idle: int
    iowait: int = 0
    steal: int = 0

    @property
    def total(self) -> int:
        """Altogether, but for what a hypervisor took."""
        return self.busy + self.idle + self.iowait


def parse_stat(text: str) -> dict[int, Ticks]:
    """Ticks of each core that is on, from the text of /proc/stat. Raises ValueError.

    The columns are user, nice, system, idle, iowait, irq, softirq, steal; guests are in user
    already, and what a hypervisor took (steal) is neither used nor there.
    """
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if not re.fullmatch(r"cpu\d{1,6}", name, re.ASCII):
            continue
        columns = rest.split()[:8]
        if len(columns) < 7 or not all(map(_COUNT.fullmatch, columns)):
            raise ValueError(f"/proc/stat: {line[:80]!r} is not a line of a core")
        user, nice, system, idle, iowait, irq, softirq, steal = (*map(int, columns), 0)[:8]
        found[int(name[3:])] = Ticks(user + nice + system + irq + softirq, idle, iowait, steal)
    if not found:
        raise ValueError("/proc/stat lists no core")
    return found


def parse_diskstats(text: str) -> int:
    """Reads and writes that all disks have completed, from the text of /proc/diskstats.

    Partitions, and devices that stand on other ones, are left out: theirs are counted below.
    """
    completed = 0
    for line in text.splitlines():
        columns = line.split()
        if len(columns) < 8 or _NO_DISK.fullmatch(columns[2]):
            continue
        if all(_COUNT.fullmatch(columns[at]) for at in (3, 7)):
            completed += int(columns[3]) + int(columns[7])
    return completed


def shares(old: Mapping[int, Ticks], new: Mapping[int, Ticks]) -> dict[int, float]:
    """The share of its time that each core was busy, between two looks.

    A core that just came on, and one whose counters went back, counts as idle.
    """
    found = {}
    for core, now in new.items():
        before = old.get(core, now)
        busy, total = now.busy - before.busy, now.total - before.total
        found[core] = min(max(busy / total, 0.0), 1.0) if total > 0 and busy > 0 else 0.0
    return found


def polled(old: Mapping[str, float], new: Mapping[str, float]) -> float:
    """Seconds of an idle core that were a loop, from the seconds of its states at two looks."""
    now_s = new.get(POLLING, 0.0)
    return max(0.0, now_s - old.get(POLLING, now_s))


@dataclass(frozen=True)
class Look:
    """Counters of a machine at a moment; `hertz` and `states_s` of cores that tell them."""

    ticks: Mapping[int, Ticks]
    requests: int = 0
    hertz: Mapping[int, float] = field(default_factory=dict)
    states_s: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


def look_of(texts: Mapping[str, str]) -> Look:
    """What files say, by their paths below the root. Raises ValueError for /proc/stat only."""
    hertz: dict[int, float] = {}
    names: dict[tuple[int, str], str] = {}
    times_s: dict[tuple[int, str], float] = {}
    for path, text in texts.items():
        place = _PLACE.fullmatch(path)
        if place is None:
            continue
        core, state, what = int(place[1]), place[2] or "", place[3]
        value = text.strip()
        if what == "name":
            names[core, state] = value
        elif not _COUNT.fullmatch(value):
            continue
        elif what == "scaling_cur_freq":
            hertz[core] = 1e3 * int(value)
        elif what == "time":
            times_s[core, state] = 1e-6 * int(value)
    states_s: dict[int, dict[str, float]] = {}
    for (core, state), seconds in times_s.items():
        own, name = states_s.setdefault(core, {}), names.get((core, state), state)
        own[name] = own.get(name, 0.0) + seconds
    ticks = parse_stat(texts.get(STAT, ""))
    return Look(ticks, parse_diskstats(texts.get(DISKS, "")), hertz, states_s)


@dataclass(frozen=True)
class Spent:
    """Core-seconds of a machine within a span of `seconds`.

    Cores that were `on_s` were busy, idle, idle with a disk at work for them (`iowait_s`), or taken
    by a hypervisor (`steal_s`); these add up to `on_s` but for the kernel's ticks. `polled_s` is
    the part of idle time that was a loop. The scaled ones count each second by the core's frequency
    over `full_hz`, as a whole one where it tells none. `states_s` is seconds in idle states;
    they are counted when a core leaves one. `requests` are those that disks completed.
    """

    seconds: float = 0.0
    on_s: float = 0.0
    busy_s: float = 0.0
    idle_s: float = 0.0
    iowait_s: float = 0.0
    steal_s: float = 0.0
    polled_s: float = 0.0
    on_scaled_s: float = 0.0
    awake_scaled_s: float = 0.0
    requests: float = 0.0
    full_hz: float | None = None
    states_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def awake_s(self) -> float:
        """Core-seconds in which instructions ran: in tasks, or in the loop of an idle core."""
        return self.busy_s + self.polled_s

    @property
    def cores(self) -> float:
        """How many cores were on, in the mean."""
        return self.on_s / self.seconds if self.seconds > 0 else 0.0


_SUMS = [one.name for one in fields(Spent) if one.name not in ("full_hz", "states_s")]


class Counter:
    """Core-seconds since the first look, over all looks since: cores may come on and go off.

    A span for which a core is missing at one end is not counted for it, nor is what a counter went
    back by.
    """

    def __init__(self, full_hz: float | None = None) -> None:
        """Count each second at a frequency as its share of `full_hz`."""
        self._full_hz = full_hz
        self._before: tuple[float, Look] | None = None
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._states_s: dict[str, float] = {}

    def take(self, at_s: float, look: Look) -> Spent:
        """Add what was since the look before, at a moment in seconds; all of it so far."""
        before, self._before = self._before, (at_s, look)
        if before is not None:
            self._add(at_s - before[0], before[1], look)
        return Spent(**self._sums, full_hz=self._full_hz, states_s=dict(self._states_s))

    def _add(self, seconds: float, old: Look, new: Look) -> None:
        sums = self._sums
        sums["seconds"] += seconds
        sums["requests"] += max(0, new.requests - old.requests)
        for core, now in new.ticks.items():
            if core not in old.ticks:
                continue
            spent = [TICK_S * max(0, b - a) for a, b in zip(old.ticks[core], now, strict=True)]
            states_s = old.states_s.get(core, {}), new.states_s.get(core, {})
            self._idled(*states_s)
            polled_s = polled(*states_s)
            phi = self._phi(new.hertz.get(core))
            for name, value in zip(("busy_s", "idle_s", "iowait_s", "steal_s"), spent, strict=True):
                sums[name] += value
            sums["on_s"] += seconds
            sums["polled_s"] += polled_s
            sums["on_scaled_s"] += phi * seconds
            sums["awake_scaled_s"] += phi * (spent[0] + polled_s)

    def _idled(self, old: Mapping[str, float], new: Mapping[str, float]) -> None:
        """Add the seconds of a core's idle states."""
        for name, now_s in new.items():
            own_s = max(0.0, now_s - old.get(name, now_s))
            self._states_s[name] = self._states_s.get(name, 0.0) + own_s

    def _phi(self, hertz: float | None) -> float:
        if hertz is None or not self._full_hz:
            return 1.0
        return min(hertz / self._full_hz, 1.0)


def as_plain(spent: Spent) -> dict[str, Any]:
    """As plain data, to be kept."""
    found: dict[str, Any] = {name: round(getattr(spent, name), 9) for name in _SUMS}
    if spent.full_hz is not None:
        found["full_hz"] = spent.full_hz
    return {**found, "states_s": {name: round(s, 6) for name, s in spent.states_s.items()}}


def of_plain(content: Mapping[str, Any]) -> Spent:
    """What `as_plain` made. Raises ValueError, KeyError, TypeError for what is not that."""
    sums = {name: float(content[name]) for name in _SUMS}
    full_hz = content.get("full_hz")
    states_s = {str(name): float(s) for name, s in content["states_s"].items()}
    return Spent(**sums, full_hz=None if full_hz is None else float(full_hz), states_s=states_s)


def between(
    looks: Sequence[tuple[int, Spent]], start_ns: int, end_ns: int, slack_ns: int = 0
) -> Spent | None:
    """What was spent between two moments, from cumulative looks at others, interpolated.

    Moments are in nanoseconds on one clock, and looks ascend. None if the looks do not reach
    from one end to the other, but for `slack_ns`.
    """
    if len(looks) < 2 or looks[0][0] > start_ns + slack_ns or looks[-1][0] < end_ns - slack_ns:
        return None
    if end_ns <= start_ns:
        return None
    # Nanoseconds since a boot leave a float its microseconds.
    base_ns = looks[0][0]
    times_s = np.array([(at_ns - base_ns) / 1e9 for at_ns, _ in looks])
    ends_s = [(at_ns - base_ns) / 1e9 for at_ns in (start_ns, end_ns)]

    def spent(values: Sequence[float]) -> float:
        start, end = np.interp(ends_s, times_s, values)
        return max(0.0, float(end - start))

    sums = {name: spent([getattr(one, name) for _, one in looks]) for name in _SUMS}
    # A look and its moment are a little apart; the span's own length is known.
    seconds, apart_s = (end_ns - start_ns) / 1e9, sums["seconds"]
    for name in ("seconds", "on_s", "on_scaled_s"):
        sums[name] *= seconds / apart_s if apart_s > 0 else 1.0
    last = looks[-1][1]
    states_s = {
        name: spent([one.states_s.get(name, 0.0) for _, one in looks]) for name in last.states_s
    }
    return Spent(**sums, full_hz=last.full_hz, states_s=states_s)
