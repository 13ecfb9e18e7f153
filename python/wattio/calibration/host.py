"""What of this host can be swept, and what its cores and drives do meanwhile."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wattio import clock
from wattio.analysis.cores import Look, polled, shares
from wattio.errors import HostError
from wattio.files.small import text_or_empty
from wattio.knobs.knobs import KNOBS
from wattio.meters.estimate import look_here, parse_stat

Wait = Callable[[float], None]

FREQUENCIES_MOST = 4
"""So many are swept where nothing is asked: the model is linear in frequency."""

_CPU = "sys/devices/system/cpu"
_LOOKS = 8
_LOOK_S_LEAST = 0.25
"""Asking a core for its frequency wakes it: it is done seldom."""


@dataclass(frozen=True)
class Host:
    """What can be swept; no frequencies where they cannot be. `lacks` says what cannot, and why.

    `cores` is how many are on. `frequency_max_hz` is None if the host does not tell it.
    """

    root: Path
    frequencies_hz: tuple[float, ...]
    frequency_max_hz: float | None
    cores: int
    cores_can_go: bool
    lacks: dict[str, str]

    def frequencies_default(self) -> tuple[float, ...]:
        """A few frequencies from the lowest to the highest."""
        return _spread(self.frequencies_hz, FREQUENCIES_MOST)

    def cores_default(self) -> tuple[int, ...]:
        """One core, half of them, all."""
        if not self.cores_can_go:
            return (self.cores,)
        return tuple(sorted({1, (self.cores + 1) // 2, self.cores}))


def look(root: Path = Path("/")) -> Host:
    """Find out what a host has; `root` is the folder under which /sys and /proc lie.

    Raises MeterLost where /proc/stat cannot be used, HostError where there is none.
    """
    lacks: dict[str, str] = {}
    frequencies: tuple[float, ...] = ()
    need = _missing(root, "cpu.frequency")
    if need is None:
        frequencies = _frequencies(root)
    else:
        lacks["frequency"] = need
    need = _missing(root, "cpu.cores")
    switches = sorted(root.glob(KNOBS["cpu.cores"].files))
    if need is None and any(text_or_empty(path) != "1" for path in switches):
        need = "some cores are already off; which of them may be turned on is unknown"
    if need is not None:
        lacks["cores"] = need
    cores = len(parse_stat(_needed(root / "proc/stat")))
    return Host(root, frequencies, _frequency_max(root), cores, need is None, lacks)


@dataclass(frozen=True)
class Work:
    """What cores and drives did between two moments; the columns of `points.Point`."""

    start_ns: int
    end_ns: int
    active: float
    active_phi: float
    busy: float
    busy_phi: float
    kiops: float


def observe(root: Path, span_s: float, frequency_max_hz: float, wait: Wait = time.sleep) -> Work:
    """Watch for `span_s` seconds. Raises MeterLost for what cannot be read.

    Utilisation and I/Os are differences of the kernel's counters, frequency is the mean of a few
    looks, 1 where the host tells none. A core that is idle in a loop is busy, as it is to
    `estimate:`, which multiplies by the same.
    """
    before = look_here(root)
    start = clock.now()
    step_s = max(span_s / _LOOKS, _LOOK_S_LEAST)
    phis: dict[int, list[float]] = {core: [] for core in before.ticks}
    end_s = start.monotonic_ns / 1e9 + span_s
    while (left_s := end_s - clock.now().monotonic_ns / 1e9) > 0:
        wait(min(step_s, left_s))
        for core, seen in phis.items():
            seen.append(_phi(root, core, frequency_max_hz))
    after = look_here(root)
    end = clock.now()
    phi = {core: sum(seen) / len(seen) for core, seen in phis.items() if seen}
    ends_ns = start.monotonic_ns, end.monotonic_ns
    use = _awake(before, after, (ends_ns[1] - ends_ns[0]) / 1e9)
    return counted(use, phi, after.requests - before.requests, ends_ns)


def _awake(before: Look, after: Look, span_s: float) -> dict[int, float]:
    """The share of its time in which each core ran instructions, if only an idle one's loop."""
    use = shares(before.ticks, after.ticks)
    for core in use:
        polled_s = polled(before.states_s.get(core, {}), after.states_s.get(core, {}))
        use[core] = min(use[core] + polled_s / span_s, 1.0)
    return use


def counted(
    use: Mapping[int, float], phi: Mapping[int, float], ios: int, span_ns: tuple[int, int]
) -> Work:
    """Sums over the cores that are on, from the utilisation and phi of each (1 where unknown)."""
    start_ns, end_ns = span_ns
    return Work(
        start_ns=start_ns,
        end_ns=end_ns,
        active=float(len(use)),
        active_phi=sum(phi.get(core, 1.0) for core in use),
        busy=sum(use.values()),
        busy_phi=sum(share * phi.get(core, 1.0) for core, share in use.items()),
        kiops=max(0, ios) / ((end_ns - start_ns) / 1e9) / 1e3,
    )


def active_cores(root: Path) -> list[int]:
    """The numbers of the cores that are on. Raises MeterLost, HostError."""
    return sorted(parse_stat(_needed(root / "proc/stat")))


def _missing(root: Path, knob: str) -> str | None:
    """Why a knob cannot be turned; None if it can."""
    files = list(root.glob(KNOBS[knob].files))
    if not files:
        return f"this host has no {KNOBS[knob].need} (no /{KNOBS[knob].files})"
    if not all(os.access(path, os.W_OK) for path in files):
        return f"/{KNOBS[knob].files} cannot be written; that needs root"
    return None


def _frequencies(root: Path) -> tuple[float, ...]:
    """What cores can be set to, in Hz: the driver's steps, or an even spread where it has none."""
    steps: set[float] = set()
    for policy in sorted((root / _CPU / "cpufreq").glob("policy*")):
        words = text_or_empty(policy / "scaling_available_frequencies").split()
        found = [int(word) * 1e3 for word in words if re.fullmatch(r"[0-9]{1,12}", word)]
        least, most = (
            _kilohertz(policy / "cpuinfo_min_freq"),
            _kilohertz(policy / "cpuinfo_max_freq"),
        )
        if not found and least is not None and most is not None:
            count = FREQUENCIES_MOST - 1
            found = [(least + (most - least) * at // count) * 1e3 for at in range(count + 1)]
        steps.update(found)
    return tuple(sorted(steps))


def _frequency_max(root: Path) -> float | None:
    """The highest frequency of any core in Hz, by cpufreq or as /proc/cpuinfo says."""
    tops = [
        khz * 1e3
        for path in (root / _CPU / "cpufreq").glob("policy*/cpuinfo_max_freq")
        if (khz := _kilohertz(path))
    ]
    said = re.findall(
        r"(?m)^cpu MHz\s*:\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)$", text_or_empty(root / "proc/cpuinfo")
    )
    found = tops or [float(mhz) * 1e6 for mhz in said]
    return max(found, default=0.0) or None


def _phi(root: Path, core: int, frequency_max_hz: float) -> float:
    khz = _kilohertz(root / _CPU / f"cpu{core}/cpufreq/scaling_cur_freq")
    return 1.0 if khz is None else min(khz * 1e3 / frequency_max_hz, 1.0)


def _kilohertz(path: Path) -> int | None:
    text = text_or_empty(path)
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text) else None


def _spread(values: tuple[float, ...], most: int) -> tuple[float, ...]:
    """At most so many of ascending values, with both ends."""
    if len(values) <= most:
        return values
    last = len(values) - 1
    return tuple(values[round(at * last / (most - 1))] for at in range(most))


def _needed(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HostError(f"{path}: cannot be read: {error.strerror}") from None
