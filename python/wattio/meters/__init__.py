"""Power meters: one module for each kind, all of the shape that `meter` describes.

A meter has a URL-shaped name: a scheme, a colon, and what that kind of meter needs to be found.
"""

from __future__ import annotations

import logging
from importlib import import_module
from types import ModuleType

from wattio.errors import InputError
from wattio.meters.meter import Facts, FoundMeter, Meter, MeterLost, MeterRefused, Reading
from wattio.meters.name import public_name

__all__ = [
    "KINDS",
    "Facts",
    "FoundMeter",
    "Meter",
    "MeterLost",
    "MeterRefused",
    "Reading",
    "kind_of",
    "open_meter",
    "public_name",
]

_log = logging.getLogger(__name__)

KINDS: dict[str, str] = {
    "csv": "tabular",
    "estimate": "estimate",
    "hwmon": "hwmon",
    "ipmi": "ipmi",
    "lmg450": "lmg450",
    "parquet": "tabular",
    "ptdaemon": "ptdaemon",
    "rapl": "rapl",
    "redfish": "redfish",
    "snmp": "snmp",
}
"""Module of each kind, by the scheme of its names; imported when a name asks for it."""


def kind_of(name: str) -> ModuleType:
    """The module of the kind of meter that a name belongs to. Raises InputError."""
    from wattio.files.document import nearest

    scheme, colon, _ = name.partition(":")
    if not colon or scheme not in KINDS:
        raise InputError(
            f'meter "{public_name(name)}": unknown kind; {nearest(scheme, list(KINDS))}'
        )
    return import_module(f"wattio.meters.{KINDS[scheme]}")


def open_meter(name: str) -> Meter:
    """Open the meter of a name. Raises InputError, MeterRefused, MeterLost."""
    _log.debug("opens the meter %s", public_name(name))
    meter: Meter = kind_of(name).open_meter(name)
    return meter
