"""Knobs that a study sweeps: which files of the host stand behind each, and how values are put.

The files are written through `wattio._core.HeldKnobs`, the host layer of `wattiod`: the old value
is saved before the first write, every write is read back, and everything is put back on every way
out, after a kill by the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wattio._core import HostError, parse_quantity
from wattio.errors import InputError
from wattio.files.document import nearest
from wattio.knobs.texts import Texts, here

Value = float | int | str
"""What a knob is set to."""


@dataclass(frozen=True)
class Knob:
    """A knob as data: its files below the root, what it needs, and its value as text for one."""

    files: str
    need: str
    text: Callable[[Value, int], str]


def hertz(value: Value) -> float:
    """A frequency of a study. Raises ValueError, InputError."""
    if not isinstance(value, str):
        raise ValueError(f'{value!r} has no unit; write it as text, for example "2.4 GHz"')
    found = parse_quantity(value, "frequency")
    if found <= 0:
        raise ValueError(f'"{value}": allowed is above 0 Hz')
    return found


def _kilohertz(value: Value, _: int) -> str:
    return str(round(hertz(value) / 1e3))


def _online(value: Value, place: int) -> str:
    """`place` counts from 0 over the cores that can be switched off; core 0 never can."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is not a number of cores; allowed: 1 or more")
    return "1" if place + 1 < value else "0"


def _word(*allowed: str) -> Callable[[Value, int], str]:
    def text(value: Value, _: int) -> str:
        if value not in allowed:
            raise ValueError(f"{value!r} is not known; {nearest(str(value), allowed)}")
        return str(value)

    return text


def _microseconds(value: Value, _: int) -> str:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a number of microseconds")
    return str(value)


_CPU = "sys/devices/system/cpu"
_HIGHEST, _LOWEST = "scaling_max_freq", "scaling_min_freq"
_PINNED = "cpu.frequency_pinned"

KNOBS = {
    # A cap, below which the kernel goes on choosing; or that frequency and no other.
    "cpu.frequency": Knob(f"{_CPU}/cpufreq/policy*/{_HIGHEST}", "cpufreq", _kilohertz),
    _PINNED: Knob(f"{_CPU}/cpufreq/policy*/{_HIGHEST}", "cpufreq", _kilohertz),
    "cpu.cores": Knob(f"{_CPU}/cpu[1-9]*/online", "hot-plug of cores", _online),
    "nvme.latency_tolerance_us": Knob(
        "sys/class/nvme/nvme*/power/pm_qos_latency_tolerance_us", "NVMe drives", _microseconds
    ),
    "disk.runtime": Knob(
        "sys/block/sd*/device/power/control", "SCSI or ATA disks", _word("on", "auto")
    ),
    "sata.alpm": Knob(
        "sys/class/scsi_host/host*/link_power_management_policy",
        "SATA links",
        # min_power has lost data on some disks; who wants it can write the file by hand.
        _word("max_performance", "medium_power", "med_power_with_dipm"),
    ),
}
"""Every knob that a study can sweep."""


def check(name: str, values: list[Value]) -> None:
    """Raise InputError for an unknown knob or a value that it cannot take."""
    if name not in KNOBS:
        raise InputError(f'"{name}" is not a knob; {nearest(name, list(KNOBS))}')
    for value in values:
        try:
            KNOBS[name].text(value, 0)
        except ValueError as error:
            raise InputError(f"{name}: {error}") from None


def assignments(name: str, value: Value, root: Path = Path("/")) -> dict[str, str]:
    """What to write where on this machine, by address and in this order. Raises HostError."""
    found = settings(name, value, here(root))
    return {f"file:/{path}": text for path, text in found.items()}


def settings(name: str, value: Value, texts: Texts) -> dict[str, str]:
    """What to write where, by path below the root and in this order.

    A pinned frequency is written to both limits so that the lower one never passes the upper: the
    kernel would move the other along. Raises HostError where nothing is there.
    """
    knob = KNOBS[name]
    lower = [knob.files.replace(_HIGHEST, _LOWEST)] if name == _PINNED else []
    there = texts([knob.files, *lower])
    # Names end in numbers: policy10 comes after policy9.
    order = sorted(there, key=lambda path: (len(path), path))
    files = [path for path in order if not (lower and path.endswith(_LOWEST))]
    if not files:
        raise HostError(f"{name}: this host has no {knob.need} (no /{knob.files})")
    if name == "cpu.cores" and isinstance(value, int) and value > len(files) + 1:
        raise HostError(f"{name}: is {value}; this host has {len(files) + 1} cores")
    found = {}
    for index, path in enumerate(files):
        text = knob.text(value, index)
        for file in _both(path, int(text), there) if name == _PINNED else (path,):
            found[file] = text
    return found


def _both(highest: str, khz: int, there: Mapping[str, str]) -> tuple[str, str]:
    """The upper and the lower limit of a policy, the first to be written first. HostError."""
    lowest = highest.replace(_HIGHEST, _LOWEST)
    try:
        raised = khz > int(there[highest])
    except ValueError:
        raise HostError(f"/{highest}: is not a frequency: {there[highest].strip()!r}") from None
    if lowest not in there:
        raise HostError(f"{_PINNED}: /{lowest} is missing or cannot be read")
    return (highest, lowest) if raised else (lowest, highest)
