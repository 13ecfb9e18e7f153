"""What a limit means, in sentences: which part limits, by how much, and what would lift it.

The advice is the thesis's in section 6.6: faster or more links until the disks limit, more devices
until the network does, more memory where clients lack it.
"""

from __future__ import annotations

from wattio.analysis.peak import Change, Kind, Limit, Quantity

NAMES: dict[Kind, str] = {"memory": "client memory", "network": "network", "disk": "disks"}

_UNITS: dict[Kind, tuple[str, str]] = {
    "memory": ("client", "clients"),
    "network": ("link", "links"),
    "disk": ("device", "devices"),
}


def spoken(quantity: Quantity) -> str:
    """A quantity in words: `read throughput`."""
    measure = "IOPS" if quantity.measure == "iops" else "throughput"
    return f"{quantity.direction} {measure}"


def unit(quantity: Quantity) -> str:
    """Its unit."""
    return "IOPS" if quantity.measure == "iops" else "MiB/s"


def figure(value: float) -> str:
    """A rate as it is read: no more digits than it has."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def sentences(limit: Limit) -> list[str]:
    """What is to be known of a limit, the most important first."""
    names = " and ".join(NAMES[kind] for kind in limit.limiting)
    first = f"{names} limit" if " and " in names or names == "disks" else f"{names} limits"
    if limit.margin is not None:
        first += f"; the next part allows {limit.margin:.2f} x as much"
    if limit.contested:
        first += ", which is within the noise: either may limit"
    found = [first]
    if limit.missing:
        lacking = ", ".join(NAMES[kind] for kind in limit.missing)
        found.append(f"not known, and left out: {lacking}")
    if limit.halves:
        nodes = ", ".join(limit.halves)
        found.append(
            f"only the network or only the disks of {nodes} are known: the true peak may be lower"
        )
    return found + [_change(change, limit.quantity) for change in limit.changes]


def _change(change: Change, quantity: Quantity) -> str:
    where = f"in {change.node}, " if change.node is not None else ""
    one, many = _UNITS[change.kind]
    more = f"{change.more_units} more {one if change.more_units == 1 else many}"
    return (
        f"{where}{change.units} {one if change.units == 1 else many}: {change.factor:.2f} x faster,"
        f" or {more}, would reach {figure(change.reaches)} {unit(quantity)}; then"
        f" {NAMES[change.then]} limit{'' if change.then == 'disk' else 's'}"
    )
