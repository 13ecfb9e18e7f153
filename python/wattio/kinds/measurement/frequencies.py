"""Frequencies that the cores of this machine ran at during a step, as cpufreq told them.

`raw/<identity>/<step>.frequency.jsonl` has a line for each look, in the form of `told`: `{"source":
FILE, "khz": [one for each core that is on]}`. The file is `cpuinfo_avg_freq`, what a core really
ran at lately by its own counters (APERF and MPERF on x86), where the kernel has it, else
`scaling_cur_freq`: much the same on x86, and what was last asked for elsewhere (Documentation/
admin-guide/pm/cpufreq.rst of Linux).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wattio.clock import Span
from wattio.kinds.measurement.told import Told
from wattio.knobs.knobs import Value, hertz
from wattio.results.runs import Metrics

KIND = "frequency"
LOOK_S = 0.5

OFF_MAX = 0.05
"""By a larger share another frequency than the asked one is a doubt."""

PINNED, CAP = "cpu.frequency_pinned", "cpu.frequency"
"""Conditions of a study that are frequencies: what cores run at, and what they run at most at."""

_POLICIES = "sys/devices/system/cpu/cpufreq"
_SOURCES = ("cpuinfo_avg_freq", "scaling_cur_freq")


def asking(root: Path = Path("/")) -> Callable[[], Mapping[str, Any]] | None:
    """What looks at the frequencies; None on a host without cpufreq."""
    for source in _SOURCES:
        if _told(root, source):
            return lambda: {"source": source, "khz": _told(root, source)}
    return None


def _told(root: Path, source: str) -> list[int]:
    """Frequencies in kHz, one for each core of each policy that tells."""
    found = []
    for policy in sorted((root / _POLICIES).glob("policy[0-9]*")):
        try:
            khz = int((policy / source).read_text("ascii"))
            cores = len((policy / "affected_cpus").read_text("ascii").split())
        except (OSError, ValueError):
            continue
        found += [khz] * cores
    return found


def of_phase(span: Span, looks: Sequence[Told]) -> Metrics:
    """Mean over cores and time of the looks within a phase, the least and the most; or nothing."""
    within = range(span.start.monotonic_ns, span.end.monotonic_ns + 1)
    values = [value for look in looks if look.at.monotonic_ns in within for value in _hertz(look)]
    if not values:
        return {}
    return {
        "cpu_frequency_hz_mean": (math.fsum(values) / len(values), "Hz"),
        "cpu_frequency_hz_min": (min(values), "Hz"),
        "cpu_frequency_hz_max": (max(values), "Hz"),
    }


def asked_hz(value: Value) -> float:
    """The frequency in hertz that a condition's value asks for. Raises ValueError, InputError."""
    return hertz(value)


def doubts(span: Span, looks: Sequence[Told], knobs: Mapping[str, Value]) -> Iterator[str]:
    """Where the cores ran at another frequency than a knob asked for."""
    found = of_phase(span, looks)
    if not found:
        return
    for name, key, capped in (
        (PINNED, "cpu_frequency_hz_mean", False),
        (CAP, "cpu_frequency_hz_max", True),
    ):
        if name not in knobs:
            continue
        asked, ran = asked_hz(knobs[name]), found[key][0]
        off = ran / asked - 1
        if off > OFF_MAX or (off < -OFF_MAX and not capped):
            up_to = "up to " if capped else ""
            text = f"{span.name}: cores ran at {up_to}{ran / 1e9:.3g} GHz"
            yield f"{text}, and {name} is {knobs[name]}"


def _hertz(look: Told) -> Iterator[float]:
    values = look.status.get("khz")
    for value in values if isinstance(values, list) else []:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield 1e3 * value
