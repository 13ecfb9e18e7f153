"""Lines of a PTDaemon's log of samples, such as the `spl.txt` of MLPerf Power: pure functions.

    Time,05-24-2021 17:12:48.375,Watts,21.87,Volts,227.8,Amps,0.19,PF,0.498,Mark,run_1

Pairs of a name and a value; what follows a channel's name (`Ch1`) is that channel's. Times are
month-day-year without a zone. A value of -1 is one that the analyser does not tell. Source of the
form: the programs that check MLPerf's submissions (mlcommons/inference, tools/submission).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from wattio.clock import utc_ns_of

TIME_FORMAT = "%m-%d-%Y %H:%M:%S.%f"
_CHANNEL = re.compile(r"ch(annel)? ?\d+", re.IGNORECASE)
_MISSING = -1.0
_BYTE_ORDER = "\ufeff"
"""Its mark, which may stand first in a file."""


class Line(NamedTuple):
    """A line of the log: when, watts of each channel (None if it told none), its mark."""

    time_ns: int
    power_w: dict[str | None, float | None]
    mark: str | None


def is_log(line: str) -> bool:
    """Whether a line is one of such a log."""
    return line.lstrip(_BYTE_ORDER).startswith("Time,") and ",Watts," in line


def parse(line: str, zone: tzinfo = UTC, before_ns: int | None = None) -> Line:
    """What a line says. Where channels are told one by one, their sum is left out. ValueError.

    `before_ns` is the time of the line before.
    """
    power_w: dict[str | None, float | None] = {}
    time_ns, mark = None, None
    for channel, name, value in _pairs(line):
        if name == "time":
            time_ns = parse_time(value, zone, before_ns)
        elif name == "watts":
            power_w[channel] = _watts(value)
        elif name == "mark":
            mark = value or None
    if time_ns is None or not power_w:
        raise ValueError("has no Time or no Watts")
    if len(power_w) > 1:
        power_w.pop(None, None)
    return Line(time_ns, power_w, mark)


def parse_time(text: str, zone: tzinfo = UTC, before_ns: int | None = None) -> int:
    """Nanoseconds since 1970 of a time as PTDaemon and MLPerf's load generator write it."""
    try:
        moment = datetime.strptime(text.strip(), TIME_FORMAT)
    except ValueError:
        raise ValueError(
            f'"{text[:40]}" is not a time; write it as 05-24-2021 17:12:48.375'
        ) from None
    try:
        return utc_ns_of(moment, zone, before_ns)
    except OverflowError:
        raise ValueError(f'"{text[:40]}" is not a valid time') from None


def _pairs(line: str) -> Iterator[tuple[str | None, str, str]]:
    """Channel, name in small letters, and value."""
    text = line.strip().lstrip(_BYTE_ORDER).replace("\0", "")
    fields = [field.strip() for field in text.split(",")]
    channel, at = None, 0
    while at < len(fields):
        if _CHANNEL.fullmatch(fields[at]):
            channel = fields[at]
            at += 1
            continue
        if at + 1 < len(fields):
            yield channel, fields[at].lower(), fields[at + 1]
        at += 2


def _watts(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f'"{text[:40]}" is not a number of watts') from None
    if value == _MISSING or value != value or value in (float("inf"), float("-inf")):
        return None
    return value
