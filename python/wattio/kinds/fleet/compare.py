"""How two fleets, or two policies of one, are compared: over their servers.

A fleet is simulated once; what varies is from server to server. Where both sides have the same
servers with the same loads, each is compared with itself; otherwise one set of servers with the
other. A difference beyond noise is one that other servers drawn alike would show, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattio.errors import ResultError
from wattio.kinds.fleet.folder import Columns, FleetFolder
from wattio.results.compare import Ratio, Side, corrected, of_means
from wattio.results.runs import WHOLE, Recorded
from wattio.results.summary import Estimate

UNITS = {
    "power_w_mean": "W",
    "iops_mean": "1/s",
    "latency_us_mean": "us",
    "latency_us_p99": "us",
    "background_rate_mean": "1",
}
"""What is compared, means over the servers, in this order."""

Values = NDArray[np.float64]


def ratios(first: Side, left: list[Recorded], second: Side, right: list[Recorded]) -> list[Ratio]:
    """Every metric that servers of both sides have. Raises ResultError for a stopped fleet."""
    ours, theirs = _columns(first, left), _columns(second, right)
    paired = _members(first) == _members(second)
    found = []
    for name, unit in UNITS.items():
        sides = [_values(columns, name) for columns in (ours, theirs)]
        known = [np.isfinite(values) for values in sides]
        if paired:
            known = [known[0] & known[1]] * 2
        sides = [values[those] for values, those in zip(sides, known, strict=True)]
        if not all(values.size and values.mean() > 0 for values in sides):
            continue
        one, other = (
            Estimate(unit, tuple(values.tolist()), float(values.mean()), None, None)
            for values in sides
        )
        over = f"{one.n} servers, in pairs" if paired else f"{one.n} and {other.n} servers"
        names = left[0].run.name, right[0].run.name, WHOLE, name
        ratio = of_means(names, one, other, over, paired=paired)
        found.append(replace(ratio, sample="server"))
    return corrected(found)


def _columns(side: Side, items: list[Recorded]) -> Columns:
    folder = _folder(side)
    if not folder.complete():
        raise ResultError(
            f"{folder.path}: is not complete; continue with: wattio run --resume {folder.path}"
        )
    return folder.columns(items[0].run.condition)


def _members(side: Side) -> object:
    return _folder(side).inputs()["members"]


def _folder(side: Side) -> FleetFolder:
    assert isinstance(side.folder, FleetFolder)
    return side.folder


def _values(columns: Columns, name: str) -> Values:
    if name == "iops_mean":
        return columns["ios"] / columns["duration_s"]
    return columns[name]
