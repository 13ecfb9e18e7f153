"""Measured points: what the cores and drives did, and what the host drew meanwhile.

A file of points is CSV with the columns of `COLUMNS`; an absent value is an empty field.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from wattio.errors import InputError
from wattio.files.document import text_of


@dataclass(frozen=True)
class Point:
    """One setting, held for a while.

    As asked for: `frequency_hz` (None where it was left alone), `cores`, `load` (share of each
    active core), `readers` of the drive. As counted, with `phi` a core's frequency over the
    highest: `active` cores, `active_phi` their sum of phi, `busy` the sum of their utilisations,
    `busy_phi` the sum of utilisation times phi, `kiops` thousands of I/Os per second. `power_w` is
    the mean by the meters, None where they told none. `start_s` and `end_s` are monotonic.
    """

    number: int
    is_idle: bool
    frequency_hz: float | None
    cores: int
    load: float
    readers: int
    start_s: float
    end_s: float
    active: float
    active_phi: float
    busy: float
    busy_phi: float
    kiops: float
    power_w: float | None


COLUMNS = tuple(field.name for field in fields(Point))
_WHOLE = ("number", "cores", "readers")
_OPTIONAL = ("frequency_hz", "power_w")
_LARGEST = 1e15
"""Beyond any of the quantities; keeps sums and squares finite."""


def dump(points: Iterable[Point], *, header: bool = True) -> str:
    """Points as text, with a line of column names where asked for."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(COLUMNS)
    for point in points:
        row = ("" if v is None else int(v) if isinstance(v, bool) else v for v in astuple(point))
        writer.writerow(row)
    return out.getvalue()


def load(path: Path) -> list[Point]:
    """Read a file of points. Raises InputError, which names file and line."""
    return parse(text_of(path), str(path))


def parse(text: str, where: str) -> list[Point]:
    """Points of a text. A last line without its end was torn: left out. Raises InputError."""
    whole = text[: text.rfind("\n") + 1]
    lines = whole.replace("\0", "").splitlines()
    if not lines or lines[0] != ",".join(COLUMNS):
        raise InputError(f"{where}:1: must be the columns {','.join(COLUMNS)}")
    points = []
    for number, line in enumerate(lines[1:], start=2):
        if line.strip():
            points.append(_point(line.split(","), f"{where}:{number}"))
    return points


def _point(row: Sequence[str], where: str) -> Point:
    if len(row) != len(COLUMNS):
        raise InputError(f"{where}: has {len(row)} fields; needs {len(COLUMNS)}")
    texts = dict(zip(COLUMNS, row, strict=True))
    found = {
        name: None if name in _OPTIONAL and not text else _number(name, text, where)
        for name, text in texts.items()
    }
    return Point(
        number=int(_of(found, "number")),
        is_idle=bool(found["is_idle"]),
        frequency_hz=found["frequency_hz"],
        cores=int(_of(found, "cores")),
        load=_of(found, "load"),
        readers=int(_of(found, "readers")),
        start_s=_of(found, "start_s"),
        end_s=_of(found, "end_s"),
        active=_of(found, "active"),
        active_phi=_of(found, "active_phi"),
        busy=_of(found, "busy"),
        busy_phi=_of(found, "busy_phi"),
        kiops=_of(found, "kiops"),
        power_w=found["power_w"],
    )


def _of(found: dict[str, float | None], name: str) -> float:
    value = found[name]
    assert value is not None
    return value


def _number(name: str, text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LARGEST:
        raise InputError(f"{where}: {name}: {text!r} is no number of 0 or more")
    if name in _WHOLE and value != int(value):
        raise InputError(f"{where}: {name}: {text!r} is no whole number")
    return value
