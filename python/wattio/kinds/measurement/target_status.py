"""Metrics of a phase from what wattio-target said of itself at its ends, and in between.

Counts are differences between the first and the last answer. How long reactors were on, and energy,
the target adds up window by window: the time that goes with these is that between the ends of the
last windows (`utc_ns` of the answers), not that between the answers themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wattio.kinds.measurement.system_status import Answer
from wattio.results.runs import Metrics

_CLOCK_SET_S = 7.0
"""Where wall clock and running time differ by more, the wall clock was set: a window lasts up to
5 s where nothing happens, and may begin long before a phase or end after it."""

_CLIENTS = "client_blocks"
"""What clients wrote, of a volume's counts."""

_WRITTEN = ("client_data_blocks", "moved_blocks", "header_blocks", "checkpoint_blocks")
"""What is written to a device; of a volume that is compressed less than clients wrote."""


def of_target(told: Sequence[Answer]) -> Metrics:
    """Every metric that follows from the answers; none from fewer than two.

    What an answer does not have is absent, and what fell: that is of a server that began anew.
    """
    if len(told) < 2:
        return {}
    first, last = told[0].status, told[-1].status
    found: Metrics = {}
    found |= _by_window(first, last)
    counted = {
        "bound_windows": "windows_bounded",
        "bound_windows_over": "violations",
        "setting_changes": "setting_changes",
    }
    for name, count in counted.items():
        value = _risen(first, last, "counts", count)
        if value is not None:
            found[name] = (value, "1")
    loss = _ratio(first, last, ("bounded_latency_us_sum",), "bounded_full_speed_us_sum", "counts")
    if loss is not None:
        found["loss_mean"] = (loss - 1, "1")
    return found | _of_volumes(told[0], told[-1]) | _of_background(told)


def _by_window(first: Mapping[str, Any], last: Mapping[str, Any]) -> Metrics:
    """Means over the windows that ended in between."""
    seconds = window_seconds(first, last)
    if seconds is None:
        return {}
    sums = {
        "reactors_on_mean": ("counts", "reactors_on_s", "1"),
        "power_estimated_w_mean": ("power", "estimated_j", "W"),
        "power_estimated_full_speed_w_mean": ("power", "estimated_full_speed_j", "W"),
    }
    found: Metrics = {}
    for name, (part, key, unit) in sums.items():
        value = _risen(first, last, part, key)
        if value is not None:
            found[name] = (value / seconds, unit)
    return found


def window_seconds(first: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
    """The time of the windows that ended between two answers; None if none did."""
    ran_s, by_clock_ns = _risen(first, last, "uptime_s"), _risen(first, last, "utc_ns")
    if ran_s is None:
        return None
    if by_clock_ns is None or abs(by_clock_ns / 1e9 - ran_s) > _CLOCK_SET_S:
        return ran_s or None
    return by_clock_ns / 1e9 or None


def _of_volumes(first: Answer, last: Answer) -> Metrics:
    before, after = (_volume_sums(one.status) for one in (first, last))
    found: Metrics = {}
    amplification = _ratio(before, after, _WRITTEN, _CLIENTS)
    if amplification is not None:
        found["write_amplification"] = (amplification, "1")
    collected = _risen(before, after, "collected_segments")
    if collected is not None:
        found["collected_segments"] = (collected, "1")
    return found


def _of_background(told: Sequence[Answer]) -> Metrics:
    """What was due and not done, over all classes, as of the answers; what was done in between."""
    found: Metrics = {}
    backlogs = [value for one in told if (value := backlog_core_s(one.status)) is not None]
    if backlogs:
        name = "background_backlog_core_s_estimated"
        found[f"{name}_max"] = (max(backlogs), "core-s")
        found[f"{name}_mean"] = (math.fsum(backlogs) / len(backlogs), "core-s")
    done = [_sum_of_classes(one.status, "done_core_s") for one in (told[0], told[-1])]
    if done[0] is not None and done[1] is not None and done[1] >= done[0]:
        found["background_core_s"] = (done[1] - done[0], "core-s")
    return found


def backlog_core_s(status: Mapping[str, Any]) -> float | None:
    """Work of all classes that is due and not done, an estimate; None if it is not told."""
    return _sum_of_classes(status, "backlog_core_s_estimated")


def amplification(first: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
    """Blocks written to each device for each that clients wrote, between two answers."""
    return _ratio(_volume_sums(first), _volume_sums(last), _WRITTEN, _CLIENTS)


def _sum_of_classes(status: Mapping[str, Any], key: str) -> float | None:
    values = [_number(one, key) for one in _objects(status.get("background"))]
    known = [value for value in values if value is not None]
    return math.fsum(known) if known and len(known) == len(values) else None


def _volume_sums(status: Mapping[str, Any]) -> dict[str, float]:
    """Counts of all volumes together; one that a volume does not tell is absent."""
    volumes = [
        volume
        for reactor in _objects(status.get("reactors"))
        for volume in _objects(reactor.get("volumes"))
    ]
    found = {}
    for key in (_CLIENTS, *_WRITTEN, "collected_segments"):
        # A target of before there was compression does not tell data apart from what clients wrote.
        other = _CLIENTS if key == _WRITTEN[0] else key
        values = [_number(volume, key if key in volume else other) for volume in volumes]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            found[key] = math.fsum(known)
    return found


def _ratio(
    first: Mapping[str, Any], last: Mapping[str, Any], above: Sequence[str], below: str, *at: str
) -> float | None:
    """The sum of what some counts rose by, over what another one did; None if that did not."""
    rises = [_risen(first, last, *at, key) for key in above]
    base = _risen(first, last, *at, below)
    if not base or any(rise is None for rise in rises):
        return None
    return math.fsum(rise for rise in rises if rise is not None) / base


def _risen(first: Mapping[str, Any], last: Mapping[str, Any], *place: str) -> float | None:
    """By how much a count rose; None if it is not there, or fell."""
    before, after = _number(first, *place), _number(last, *place)
    if before is None or after is None or after < before:
        return None
    return after - before


def _number(content: Mapping[str, Any], *place: str) -> float | None:
    value: Any = content
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a list, where it is one."""
    for one in value if isinstance(value, list) else []:
        if isinstance(one, Mapping):
            yield one
