"""What `ipmitool dcmi power reading` prints, and what its failures mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from wattio.meters.meter import MeterLost, MeterRefused

# A label, anything but digits, and the number: columns and words around it differ by version.
_POWER = re.compile(r"Instantaneous power reading\s*:\s*(\d{1,9})\s*W", re.I | re.ASCII)
_PERIOD = re.compile(
    r"Sampling period\s*:\s*(\d{1,9})\s*(milli|second|minute|hour|day|ms)", re.I | re.ASCII
)
_STATE = re.compile(r"Power reading state is\s*:\s*(\w+)", re.I | re.ASCII)
_STAMP = re.compile(
    r"IPMI timestamp\s*:\s*((?:\w{3}\s+){1,2}\d{1,2}\s+[\d:]{8}\s+\d{4}|[\d/]{8,10}\s+[\d:]{8})",
    re.I | re.ASCII,
)
_STAMP_FORMS = ("%a %b %d %H:%M:%S %Y", "%m/%d/%y %H:%M:%S", "%m/%d/%Y %H:%M:%S")
_SECONDS = {"milli": 1e-3, "ms": 1e-3, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
# Stamps below count from the start of the controller, or are not set (IPMI 2.0, section 37).
_STAMP_S_MIN = 0x2000_0000

# Words of ipmitool when the answer is no, and what each means.
_REFUSALS = (
    ("RAKP 2 HMAC is invalid", "wrong password"),
    ("unauthorized name", "unknown user"),
    ("unauthorized role", "the user is not allowed this privilege; try ?privilege=USER"),
    ("invalid authentication algorithm", "cipher suite not supported; try ?cipher=17"),
    ("no matching cipher suite", "cipher suite not supported; try ?cipher=17"),
    ("invalid role", "the user is not allowed this privilege; try ?privilege=USER"),
    ("because: Insufficient privilege level", "the user's privilege is too low"),
    ("because: Invalid command", "the BMC has no DCMI power reading"),
    ("Could not open device", "no BMC found: /dev/ipmi0 is missing or cannot be opened"),
)


@dataclass(frozen=True)
class DcmiReading:
    """One answer. `period_s` is that of the controller's statistics, `stamp_s` its own time."""

    power_w: float
    active: bool
    period_s: float | None
    stamp_s: float | None


def parse_reading(text: str) -> DcmiReading | None:
    """Find the reading in the output; None if there is none. Never raises."""
    power = _POWER.search(text)
    if power is None:
        return None
    state, period = _STATE.search(text), _PERIOD.search(text)
    return DcmiReading(
        power_w=float(power[1]),
        active=state is None or state[1].lower() in ("activated", "active"),
        period_s=int(period[1]) * _SECONDS[period[2].lower()] or None if period else None,
        stamp_s=_stamp_s(text),
    )


def explain(text: str, meter: str) -> MeterLost | MeterRefused:
    """Why there is no reading in the output, with ipmitool's own words where no better ones are."""
    for words, meaning in _REFUSALS:
        if words.lower() in text.lower():
            return MeterRefused(f"{meter}: {meaning}")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("lookup" in line and "failed" in line for line in lines):
        return MeterLost(f"{meter}: the host name cannot be resolved")
    if any("Unable to establish" in line for line in lines):
        return MeterLost(f"{meter}: did not answer")
    return MeterLost(f"{meter}: ipmitool failed: {lines[-1][:200] if lines else 'no output'}")


def _stamp_s(text: str) -> float | None:
    """The controller's time stamp in seconds since 1970, where it is one."""
    found = _STAMP.search(text)
    if found is None:
        return None
    words = " ".join(found[1].split())
    for form in _STAMP_FORMS:
        try:
            stamp_s = datetime.strptime(words, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
        return stamp_s if stamp_s >= _STAMP_S_MIN else None
    return None
