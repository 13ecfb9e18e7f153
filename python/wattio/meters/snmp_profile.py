"""Which objects a name of an SNMP meter asks for, and what their counts mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import RootModel

from wattio.files.document import Strict, nearest, parse, validate
from wattio.meters.name import Name

POWER_W = {"mW": 1e-3, "dW": 0.1, "W": 1.0, "kW": 1e3}
"""Watts of one of each unit of power."""

ENERGY_J = {"mJ": 1e-3, "J": 1.0, "kJ": 1e3, "mWh": 3.6, "Wh": 3600.0, "kWh": 3.6e6}
"""Joules of one of each unit of energy."""

KEYS = ["unit", "scale", "mark", "device", "outlet", "quantity"]
"""The keys of a name's query that this module reads."""

_OID = re.compile(r"\.?[0-2](\.[0-9]{1,10}){2,127}", re.ASCII)
_SCALE_MAX = 1e9


class Object(Strict):
    """One object of a PDU's MIB, as `snmp_profiles.toml` describes it."""

    oid: str
    unit: str
    scale: float = 1.0
    digits: str | None = None
    mark: str | None = None


class Place(Strict):
    """What is measured at one place of a PDU."""

    power: Object
    energy: Object


class Profile(Strict):
    """A family of PDUs."""

    what: str
    mib: str
    first_device: int
    device: Place
    outlet: Place


class Profiles(RootModel[dict[str, Profile]]):
    """All families, by name."""


@dataclass(frozen=True)
class Target:
    """What is asked: object identifiers, and how many `unit` (W or J) a count is.

    `untried` is the device that it was written for and never tried on, if any.
    """

    oid: str
    unit: Literal["W", "J"]
    per_count: float
    what: str
    digits: str | None = None
    mark: str | None = None
    untried: str | None = None


@cache
def profiles() -> Mapping[str, Profile]:
    """The families of PDUs that wattio knows."""
    file = resources.files("wattio.meters") / "snmp_profiles.toml"
    content = file.read_text(encoding="utf-8")
    return validate(Profiles, parse(Path("snmp_profiles.toml"), content)).root


def target_of(parts: Name) -> Target:
    """What a name asks for, by object identifier or by profile. Raises InputError."""
    if _OID.fullmatch(parts.path):
        return _own(parts)
    if parts.path not in profiles():
        known = nearest(parts.path, list(profiles()))
        raise parts.error(f'"{parts.path}" is neither an object identifier nor a profile; {known}')
    return _of_profile(parts, profiles()[parts.path])


def _own(parts: Name) -> Target:
    """The object that the name itself describes."""
    for key in ("device", "outlet", "quantity"):
        if key in parts.query:
            raise parts.error(f"{key}: is for a profile, not for an object identifier")
    unit = parts.query.get("unit")
    if unit is None:
        raise parts.error(f"needs ?unit=; allowed: {', '.join([*POWER_W, *ENERGY_J])}")
    mark = parts.query.get("mark")
    if mark is not None and not _OID.fullmatch(mark):
        raise parts.error(f'mark: "{mark}" is not an object identifier, such as 1.3.6.1.2.1.1.3.0')
    described = Object(oid=parts.path, unit=unit, scale=_scale(parts), mark=mark)
    return _target(parts, described, f"object {parts.path}")


def _of_profile(parts: Name, profile: Profile) -> Target:
    """The object that a profile describes."""
    for key in ("unit", "scale", "mark"):
        if key in parts.query:
            raise parts.error(f"{key}: is for an object identifier; the profile sets it")
    quantity = parts.query.get("quantity", "power")
    if quantity not in ("power", "energy"):
        known = nearest(quantity, ["power", "energy"])
        raise parts.error(f'quantity: "{quantity}" is not known; {known}')
    device = _number(parts, "device", profile.first_device)
    outlet = _number(parts, "outlet", 0) if "outlet" in parts.query else None
    place = profile.device if outlet is None else profile.outlet
    described = place.power if quantity == "power" else place.energy

    def filled(oid: str | None) -> str | None:
        return None if oid is None else oid.format(device=device, outlet=outlet)

    update = {key: filled(getattr(described, key)) for key in ("oid", "digits", "mark")}
    where = f"device {device}" if outlet is None else f"device {device}, outlet {outlet}"
    target = _target(parts, described.model_copy(update=update), f"{profile.what}, {where}")
    return replace(target, untried=profile.what)


def _target(parts: Name, described: Object, what: str) -> Target:
    oid, digits, mark = described.oid.lstrip("."), described.digits, described.mark
    if described.unit in POWER_W:
        per_count = described.scale * POWER_W[described.unit]
        return Target(oid, "W", per_count, f"power of {what}", digits, mark)
    if described.unit in ENERGY_J:
        per_count = described.scale * ENERGY_J[described.unit]
        return Target(oid, "J", per_count, f"energy of {what}", digits, mark)
    known = nearest(described.unit, [*POWER_W, *ENERGY_J])
    raise parts.error(f'unit: "{described.unit}" is not known; {known}')


def _scale(parts: Name) -> float:
    text = parts.query.get("scale", "1")
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 1 / _SCALE_MAX <= scale <= _SCALE_MAX:
        raise parts.error(f'scale: "{text}" is not a number above 0')
    return scale


def _number(parts: Name, key: str, default: int) -> int:
    text = parts.query.get(key, str(default))
    if not re.fullmatch(r"[0-9]{1,5}", text):
        raise parts.error(f'{key}: "{text}" is not a whole number, such as 3')
    return int(text)
