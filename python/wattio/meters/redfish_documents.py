"""What Redfish resources say of power, links and time; documents are whatever a server sends.

Source: DMTF DSP2046: Chassis, EnvironmentMetrics, Power, Sensor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

Document = Mapping[str, Any]
Kind = Literal["Sensor", "EnvironmentMetrics", "Power"]

_PATH = re.compile(r"/redfish/[!-~]{1,2000}", re.ASCII)
_DURATION = re.compile(
    r"P(?:(\d{1,4})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6}(?:\.\d{1,12})?)S)?)?", re.ASCII
)


def link_of(document: Document, key: str) -> str | None:
    """The path that a document links to; None if it names none on the same server."""
    linked = document.get(key)
    return _path(linked.get("@odata.id")) if isinstance(linked, Mapping) else None


def members_of(document: Document) -> list[str]:
    """The paths of a collection's members."""
    members = document.get("Members")
    linked = members if isinstance(members, list) else []
    paths = [_path(one.get("@odata.id")) for one in linked if isinstance(one, Mapping)]
    return [path for path in paths if path is not None]


def sensor_of(metrics: Document) -> str | None:
    """The path of the sensor that EnvironmentMetrics takes its power from."""
    power = metrics.get("PowerWatts")
    return _path(power.get("DataSourceUri")) if isinstance(power, Mapping) else None


def power_w_of(kind: Kind, document: Document) -> float | None:
    """The power that a resource tells, in watts; None if it tells none now.

    Of several entries of PowerControl the first counts: it is the whole; later ones are parts of
    it with those makers that have any.
    """
    if kind == "Sensor":
        unit = document.get("ReadingUnits")
        return _number(document.get("Reading")) if unit in ("W", None) else None
    if kind == "EnvironmentMetrics":
        power = document.get("PowerWatts")
        return _number(power.get("Reading")) if isinstance(power, Mapping) else None
    controls = document.get("PowerControl")
    first = controls[0] if isinstance(controls, list) and controls else None
    return _number(first.get("PowerConsumedWatts")) if isinstance(first, Mapping) else None


def stamp_s_of(document: Document) -> float | None:
    """When a sensor was read, by its own clock, in seconds since 1970."""
    text = document.get("ReadingTime")
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def interval_s_of(document: Document) -> float | None:
    """How often a sensor is read, in seconds."""
    text = document.get("SensingInterval")
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds or None


def accuracy_of(document: Document) -> str | None:
    """What a sensor states of its own accuracy."""
    watts, percent = _number(document.get("ReadingAccuracy")), _number(document.get("Accuracy"))
    if watts is not None:
        return f"+- {watts:g} W"
    return f"+- {percent:g} %" if percent is not None else None


def _path(value: object) -> str | None:
    return value if isinstance(value, str) and _PATH.fullmatch(value) else None


def _number(value: object) -> float | None:
    """A number of JSON; what is too large for a float is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
