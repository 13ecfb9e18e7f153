"""Energy counters of processors (RAPL), as the kernel's powercap shows them.

`rapl:package-0` is one zone, `rapl:package-0/dram` one within it. `rapl:` alone is all packages and
their memory: what lies within a package (cores, uncore) is not counted twice, and the memory, which
is listed under its package, is not part of it. Disks and supplies are not seen.
"""

from __future__ import annotations

from pathlib import Path

from wattio.meters.kernel import KernelMeter, described, found
from wattio.meters.meter import Facts, FoundMeter, Meter
from wattio.meters.name import parse

SCHEME = "rapl"
FORM = "rapl: (all packages and their memory) or rapl:ZONE, as in rapl:package-0"

# The hardware counts every millisecond; energy is counted between readings, so none is missed.
_PERIOD_S = 0.1


def find() -> list[FoundMeter]:
    """The zones of this host."""
    return found(SCHEME)


def open_meter(name: str) -> Meter:
    """Open a zone, or their sum. Raises InputError, MeterRefused.

    `?root=FOLDER` says below which folder /sys lies, for trees that are made up.
    """
    parts = parse(name)
    parts.allow(["root"])
    root = Path(parts.query.get("root", "/"))
    core_name = f"{SCHEME}:{parts.path or 'sum'}"
    facts = Facts(
        name=parts.shown,
        what=described(core_name, root),
        period_s=_PERIOD_S,
        accuracy_class="counter of the processor, of no stated accuracy",
        counts_energy=True,
    )
    return KernelMeter(core_name, root, facts)
