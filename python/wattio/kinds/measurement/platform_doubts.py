"""What a reader has to know of platforms before their figures are set side by side."""

from __future__ import annotations

from collections.abc import Sequence

from wattio.kinds.measurement.platform import Platform
from wattio.results.summary import last_attempts


def of_all(platforms: Sequence[Platform]) -> tuple[str, ...]:
    """What a reader has to know of the platforms before the figures."""
    found = []
    covers = {one.name: ", ".join(one.covered) for one in platforms}
    if len(set(covers.values())) > 1:
        told = "; ".join(f"{name} {devices}" for name, devices in covers.items())
        found.append(f"power covers different devices: {told}")
    for one in platforms:
        if one.about.price_eur is None:
            found.append(f"{one.name}: no price_eur is known, so there are no figures by euro")
        if not one.folder.complete():
            found.append(f"{one.name}: the campaign is not complete")
        found += _warned(one)
        if one.study["study"].get("peak") is None:
            found.append(f"{one.name}: the study names no peak, so its share is unknown")
    found += _of_net(platforms)
    estimated = [one.name for one in platforms if _is_estimated(one)]
    if estimated:
        mixed = len(estimated) < len(platforms)
        told = f"power of {', '.join(estimated)} is an estimate by a model, not measured"
        found.append(told + (": ratios of power compare it with a meter" if mixed else ""))
    for key, what in (("scale", "scale"), ("wattio", "version of wattio")):
        of_each = {
            one.name: (one.folder.inputs() if key == "scale" else one.folder.machine()).get(key)
            for one in platforms
        }
        if len(set(of_each.values())) > 1:
            told = ", ".join(f"{name} {value or 'none'}" for name, value in of_each.items())
            found.append(f"{what} differs: {told}")
    if any(one.folder.inputs().get("scale") for one in platforms):
        found.append("a campaign of a smaller scale is a trial: it says little about its platform")
    return tuple(found)


def _warned(one: Platform) -> list[str]:
    """How many iterations are doubtful, and why."""
    usable = [item for item in last_attempts(one.folder.iterations()) if item.usable]
    warned = [item for item in usable if item.codes("WARN")]
    if not warned:
        return []
    codes = sorted({code for item in warned for code in item.codes("WARN")})
    return [f"{one.name}: {len(warned)} of {len(usable)} iterations are WARN: {', '.join(codes)}"]


def _of_net(platforms: Sequence[Platform]) -> list[str]:
    """What net figures are of, platform by platform; nothing where none takes anything off."""
    taken = {device for one in platforms for device in one.subtracted}
    if not taken:
        return []
    told = []
    for one in platforms:
        if one.subtracted:
            told.append(f"{one.name} less {', '.join(one.subtracted)}")
        elif shared := sorted(taken & set(one.covered)):
            told.append(f"none of {one.name}, which takes nothing off for {', '.join(shared)}")
        else:
            told.append(f"{one.name} as metered")
    return [f"net figures: {'; '.join(told)}"]


def _is_estimated(one: Platform) -> bool:
    return any(row.is_estimated("energy_j") for row in one.rows.values())
