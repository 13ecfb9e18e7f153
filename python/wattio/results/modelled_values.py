"""What metrics may be that rest on an estimated energy: their values at the ends of its parts.

An iteration that rests on a power model has the low and the high end of each part of its energy as
metrics (`wattio.analysis.modelled`). Everything that is made of energy is the energy times
something that was measured, or something measured over it; so its values with other coefficients
follow.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from wattio.analysis.modelled import BY, HIGH, LOW, MEASURED
from wattio.analysis.ranged import Ranged
from wattio.results.runs import Metrics

ENERGY = "estimated_energy_j"

_OF_ENERGY = re.compile(
    r"estimated_(?:(?P<times>energy_j|power_w_mean|edp_w\d+|energy_j_per_io|energy_j_per_file)"
    r"|(?P<over>mib_per_joule|mib_s_per_joule|iops_per_watt|files_per_joule|capacity_tb_per_watt))"
    r"(?P<net>_net)?"
)

_OTHERS = -1.0
"""The mark of values that rest on more than one model: like no other one."""


def ranged(name: str, parts: Sequence[Metrics]) -> Ranged | None:
    """What a metric of iterations may be, corner by corner; None of one that no model is in."""
    kind = _OF_ENERGY.fullmatch(name)
    if kind is None or not parts or any(BY not in part or ENERGY not in part for part in parts):
        return None
    marks = {part[BY][0] for part in parts}
    names = sorted({key.removeprefix(LOW) for part in parts for key in part if LOW in key})
    own = []
    for part in parts:
        taken_j = part[ENERGY][0] - part[f"{ENERGY}_net"][0] if kind["net"] else 0.0
        energy_j = part[ENERGY][0] - taken_j
        corners = [one - taken_j for one in _corners_j(part, names)]
        if energy_j <= 0 or min(corners) <= 0:
            return None
        value = part[name][0]
        shares = [one / energy_j if kind["times"] else energy_j / one for one in corners]
        own.append([value * share for share in shares])
    model = marks.pop() if len(marks) == 1 else _OTHERS
    return Ranged(model, tuple(zip(*own, strict=True)))


def _corners_j(part: Mapping[str, tuple[float, str]], names: Sequence[str]) -> list[float]:
    """The energy with each part at its low or its high end: all low first, all high last."""
    measured_j = part.get(MEASURED, (0.0, "J"))[0]
    ends = [
        (part.get(f"{LOW}{name}", (0.0, "J"))[0], part.get(f"{HIGH}{name}", (0.0, "J"))[0])
        for name in names
    ]
    return [measured_j + sum(chosen) for chosen in itertools.product(*ends)]
