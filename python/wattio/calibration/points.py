"""Measured points: what the cores and drives did, and what the host drew meanwhile.

`kept` writes them down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from wattio.calibration import kept
from wattio.files.document import text_of


@dataclass(frozen=True)
class Point:
    """One setting, held for a while.

    As asked for: `frequency_hz` (None if it was left alone), `cores`, `load` (share of each
    active core), `readers` of the drive. As counted, with `phi` a core's frequency over the
    highest: `active` cores, `active_phi` their sum of phi, `busy` the sum of their utilisations,
    `busy_phi` the sum of utilisation times phi, `kiops` thousands of I/Os per second. `power_w` is
    the mean by the meters, None if they told none. `start_s` and `end_s` are monotonic.
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


_WHOLE = ("number", "cores", "readers")
_OPTIONAL = ("frequency_hz", "power_w")


def dump(points: Iterable[Point], *, header: bool = True) -> str:
    """Points as text, with a line of column names if it is asked for."""
    return kept.dump(Point, points, header=header)


def load(path: Path) -> list[Point]:
    """Read a file of points. Raises InputError, which names file and line."""
    return parse(text_of(path), str(path))


def parse(text: str, where: str) -> list[Point]:
    """Points of a text. A last line without its end was torn: left out. Raises InputError."""
    return [_point(texts, place) for texts, place in kept.rows(Point, text, where)]


def _point(texts: dict[str, str], where: str) -> Point:
    absent = {name: None for name in _OPTIONAL if not texts[name]}
    given = {name: text for name, text in texts.items() if name not in absent}
    found = kept.numbers(given, _WHOLE, where)
    return Point(**found | absent | {"is_idle": bool(found["is_idle"])})
