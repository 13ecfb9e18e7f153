"""Power sensors of the kernel's hwmon: ACPI power meters, supplies, regulators.

`hwmon:power_meter/power1` is a chip and its sensor; an average is read where there is one.
"""

from __future__ import annotations

from pathlib import Path

from wattio.meters.kernel import KernelMeter, described, found
from wattio.meters.meter import Facts, FoundMeter, Meter
from wattio.meters.name import parse

SCHEME = "hwmon"
FORM = "hwmon:CHIP/SENSOR, as in hwmon:power_meter/power1"

_PERIOD_S = 1.0


def find() -> list[FoundMeter]:
    """The power sensors of this host."""
    return found(SCHEME)


def open_meter(name: str) -> Meter:
    """Open a sensor. Raises InputError, MeterRefused.

    `?root=FOLDER` says below which folder /sys lies, for trees that are made up.
    """
    parts = parse(name)
    parts.allow(["root"])
    root = Path(parts.query.get("root", "/"))
    core_name = f"{SCHEME}:{parts.path}"
    chip, _, sensor = parts.path.partition("/")
    interval_s = _interval_s(_said(root, chip, f"{sensor}_average_interval"))
    facts = Facts(
        name=parts.shown,
        what=described(core_name, root),
        period_s=interval_s or _PERIOD_S,
        accuracy_class=_said(root, chip, f"{sensor}_accuracy") or "unknown",
        # A mean over an interval is that of its middle.
        lag_s=(interval_s or 0.0) / 2,
    )
    return KernelMeter(core_name, root, facts)


def _said(root: Path, chip: str, file: str) -> str | None:
    """What a file of a chip says; None if there is none that can be read."""
    chip_name, _, number = chip.partition("@")
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        try:
            same = (folder / "name").read_text(errors="replace").strip() == chip_name
            if same and number in ("", folder.name):
                return (folder / file).read_text(errors="replace").strip()
        except (OSError, ValueError):
            continue
    return None


def _interval_s(milliseconds: str | None) -> float | None:
    """An averaging interval in seconds; None for what is none."""
    if milliseconds is None or not milliseconds.isascii() or not milliseconds.isdigit():
        return None
    return min(int(milliseconds[:9]) / 1e3, 3600.0) or None
