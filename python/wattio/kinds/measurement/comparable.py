"""Whether two campaigns asked the same of their systems: the options of their workloads.

What differs in the amount alone moves no rate, if runs are long enough (Erxleben et al., section V,
who wrote 96 GiB on one cluster and 36 on the other); what differs in how it is asked (transfers,
interfaces, syncing) is another workload under the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from wattio.workloads import KINDS

_AMOUNTS = ("total", "block", "segments", "items", "size", "runtime")
"""Options that say how much is done, or for how long."""

_OF_THE_PLACE = ("launcher",)
"""Options that say by which programs of the platform it is done."""

_OF_NO_RATE = ("seed", "name")
_QUANTITY = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?) (B|s|W|Hz)", re.ASCII)


@dataclass(frozen=True)
class Asked:
    """What a study asks under the name of a workload: its kind, and its options with defaults."""

    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Differences:
    """Options in which workloads of one name differ, each with its values, as a reader has it.

    `work` are those by which it is another workload, `amounts` those of how much is done, `place`
    those of the platform's own programs.
    """

    work: tuple[str, ...]
    amounts: tuple[str, ...]
    place: tuple[str, ...]


def of_study(resolved: Mapping[str, Any]) -> dict[str, Asked]:
    """What the study of a result asks, by the names of its workloads."""
    found = {}
    for entry in resolved.get("workload", []):
        kind = entry.get("kind") or entry["name"]
        found[entry["name"]] = Asked(kind, _with_defaults(kind, entry.get("options", {})))
    return found


def _with_defaults(kind: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options with what they are where nothing is given; as given where they are not taken now."""
    if kind not in KINDS:
        return options
    model = import_module(f"wattio.workloads.{KINDS[kind]}").Options
    try:
        found: dict[str, Any] = model.model_validate(options).model_dump(mode="json")
    except ValidationError:
        return options
    return found


def differences(first: Asked, second: Asked) -> Differences:
    """In what two workloads of one name differ."""
    if first.kind != second.kind:
        return Differences((f"kind ({first.kind}, {second.kind})",), (), ())
    one, other = (dict(_flat(asked.options)) for asked in (first, second))
    work, amounts, place = [], [], []
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) == other.get(name):
            continue
        words = name.replace("]", "").replace("[", ".").split(".")
        told = f"{name} ({_shown(one.get(name))}, {_shown(other.get(name))})"
        if words[0] in _OF_THE_PLACE:
            place.append(told)
        elif words[-1] in _AMOUNTS:
            amounts.append(told)
        elif words[-1] not in _OF_NO_RATE:
            work.append(told)
    return Differences(tuple(work), tuple(amounts), tuple(place))


def _flat(value: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in tables and lists, by its place."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{place}]")
    else:
        yield name, _same(value)


def _same(value: object) -> object:
    """A quantity in one way of writing: what is given by default may be a whole number."""
    if isinstance(value, str) and (found := _QUANTITY.fullmatch(value)):
        return f"{float(found[1])!r} {found[2]}"
    return value


def _shown(value: object) -> str:
    """A value as a study has it."""
    if isinstance(value, str) and value.endswith(" B"):
        size = float(value.removesuffix(" B"))
        for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
            if size >= 2**power:
                return f"{size / 2**power:g} {unit}"
    if value is None:
        return "not given"
    return str(value).lower() if isinstance(value, bool) else str(value)
