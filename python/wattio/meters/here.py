"""What tells this machine's power where nobody has named a meter: sensors first, then a model."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from wattio.errors import WattioError
from wattio.meters import estimate, hwmon, kernel, rapl
from wattio.meters.meter import Meter

_SUM = f"{rapl.SCHEME}:"
_MOVES_S = 0.25
"""A counter of the processor moves within a millisecond; one that does not is none."""


def found_here(root: Path = Path("/")) -> tuple[str, ...]:
    """Names of the meters to take: all sensors of the kernel that can be read now, or `estimate:`.

    The estimate is that of the model of this host, else of the assumed one. What sensors cover is
    not known here: their figures stand side by side, and are not added.
    """
    suffix = "" if root == Path("/") else f"?root={root}"
    names = []
    if any(one.trouble is None for one in kernel.found(rapl.SCHEME, root)):
        names.append(f"{_SUM}{suffix}")
    there = kernel.found(hwmon.SCHEME, root)
    names += [f"{one.name}{suffix}" for one in there if one.trouble is None]
    alive = tuple(name for name in names if _lives(name))
    return alive or (f"{estimate.SCHEME}:{estimate.HOST}{suffix}",)


def _lives(name: str) -> bool:
    """Whether a meter tells a power above zero; that of a virtual machine may stand still."""
    module = rapl if name.startswith(_SUM) else hwmon
    try:
        meter: Meter = module.open_meter(name)
        with closing(meter):
            power_w = meter.read().power_w
            if power_w is None:
                time.sleep(_MOVES_S)
                power_w = meter.read().power_w
    except WattioError:
        return False
    return power_w is not None and power_w > 0
