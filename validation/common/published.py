"""Numbers that documents publish, and the arithmetic of comparing ours with them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wattio.analysis.statistics import Interval

Scalar = float | str | bool

NAMES = ("state", "name", "approach")
"""Keys that name an entry of an array of tables; they become part of the key of its leaves."""

TOLERANCE_PERCENT = 3.0
"""A deviation up to this is within how exactly a document rounds; it needs no reason."""


def read(path: Path) -> dict[str, Scalar]:
    """Every number and word of a file by dotted key, as in `ssd_power.idle0.power_w`.

    Elements of a list of numbers have their place in brackets.
    """
    with path.open("rb") as file:
        return dict(leaves(tomllib.load(file)))


def leaves(content: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Scalar]]:
    """The leaves of nested tables and arrays, in the order of the file."""
    for name, value in content.items():
        key = f"{above}.{name}" if above else name
        if isinstance(value, Mapping):
            yield from leaves(value, key)
        elif isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, Mapping):
                    naming = next(k for k in NAMES if k in item)
                    rest = {k: v for k, v in item.items() if k != naming}
                    yield from leaves(rest, f"{key}.{item[naming]}")
                else:
                    yield f"{key}[{place}]", item
        else:
            yield key, value


def deviation_percent(ours: float, published: float) -> float | None:
    """How far ours is from the published value, in per cent of that; None where it is 0."""
    return None if published == 0 else 100 * (ours - published) / published


def deviates(ours: Interval, published: float) -> bool:
    """Whether ours differs beyond its confidence interval and beyond the tolerance."""
    if ours.low <= published <= ours.high:
        return False
    deviation = deviation_percent(ours.estimate, published)
    return deviation is None or abs(deviation) > TOLERANCE_PERCENT
