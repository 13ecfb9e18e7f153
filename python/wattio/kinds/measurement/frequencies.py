"""Frequencies that the cores of machines ran at during a step, as cpufreq told them.

`raw/<identity>/<step>.frequency.jsonl` has a line for each look, in the form of `told`: `{"source":
FILE, "khz": [one for each core that is on], "hosts": {NAME: {"source", "khz"}}}`, the first two of
this machine. The file is `cpuinfo_avg_freq`, what a core really
ran at lately by its own counters (APERF and MPERF on x86), where the kernel has it, else
`scaling_cur_freq`: much the same on x86, and what was last asked for elsewhere (Documentation/
admin-guide/pm/cpufreq.rst of Linux).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from wattio.clock import Span
from wattio.kinds.measurement.system_status import Answer
from wattio.knobs.knobs import Value, hertz
from wattio.knobs.texts import Texts
from wattio.results.runs import Metrics

KIND = "frequency"
LOOK_S = 0.5

OFF_MAX = 0.05
"""By a larger share another frequency than the asked one is a doubt."""

PINNED, CAP = "cpu.frequency_pinned", "cpu.frequency"
"""Conditions of a study that are frequencies: what cores run at, and what they run at most at."""

_POLICY = "sys/devices/system/cpu/cpufreq/policy[0-9]*"
_SOURCES = ("cpuinfo_avg_freq", "scaling_cur_freq")
_HERE = ""

Look = Callable[[], Mapping[str, Any]]


def asking(texts: Texts) -> Look | None:
    """What looks at the frequencies of a machine; None of one without cpufreq."""
    for source in _SOURCES:
        if _told(texts, source):
            return partial(_look, texts, source)
    return None


def _look(texts: Texts, source: str) -> Mapping[str, Any]:
    return {"source": source, "khz": _told(texts, source)}


def _told(texts: Texts, source: str) -> list[int]:
    """Frequencies in kHz, one for each core of each policy that tells."""
    there = texts([f"{_POLICY}/{name}" for name in (source, "affected_cpus")])
    found = []
    for path in sorted(path for path in there if path.endswith(source)):
        try:
            khz = int(there[path])
        except ValueError:
            continue
        cores = there.get(path.replace(source, "affected_cpus"), "").split()
        found += [khz] * len(cores)
    return found


def of_phase(span: Span, looks: Sequence[Answer]) -> Metrics:
    """Mean over cores and time of the looks within a phase, the least and the most.

    Of this machine, and with a host's name before of each that told; or nothing.
    """
    found: Metrics = {}
    for host in dict.fromkeys([_HERE, *(name for look in looks for name in _hosts(look))]):
        for name, value in _of_host(span, looks, host).items():
            found[f"{host}.{name}" if host else name] = value
    return found


def _of_host(span: Span, looks: Sequence[Answer], host: str) -> Metrics:
    within = range(span.start.monotonic_ns, span.end.monotonic_ns + 1)
    inside = [look for look in looks if look.at.monotonic_ns in within]
    values = [value for look in inside for value in _hertz(look, host)]
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


def doubts(
    span: Span, looks: Sequence[Answer], knobs: Mapping[str, Value], host: str = _HERE
) -> Iterator[str]:
    """Where cores, of this machine or of a host, ran at another frequency than a knob asked for."""
    found = _of_host(span, looks, host)
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
            whose = f"cores of {host}" if host else "cores"
            text = f"{span.name}: {whose} ran at {up_to}{ran / 1e9:.3g} GHz"
            yield f"{text}, and {name} is {knobs[name]}"


def _hosts(look: Answer) -> Mapping[str, Any]:
    found = look.status.get("hosts")
    return found if isinstance(found, dict) else {}


def _hertz(look: Answer, host: str) -> Iterator[float]:
    status = _hosts(look).get(host) if host else look.status
    values = status.get("khz") if isinstance(status, dict) else None
    for value in values if isinstance(values, list) else []:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield 1e3 * value
