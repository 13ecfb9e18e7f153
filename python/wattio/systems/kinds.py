"""Kinds of systems by name: those of this package, and those that other packages bring.

Another package names a module of its own, of the shape of `template`, in its `pyproject.toml`:

    [project.entry-points."wattio.systems"]
    lustre = "wattio_lustre.lustre"
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from wattio.errors import InputError
from wattio.systems import KINDS

GROUP = "wattio.systems"
"""The group of their entry points."""

_PARTS = ("Options", "Storage")


def names() -> list[str]:
    """Every kind that a study may name, our own first."""
    return [*KINDS, *sorted({point.name for point in entry_points(group=GROUP)} - set(KINDS))]


def module_of(kind: str) -> ModuleType:
    """The module of a kind. Raises KeyError where nobody has it, InputError where it is unusable.

    What another package brings under one of our own names is not used.
    """
    if kind in KINDS:
        return import_module(f"wattio.systems.{KINDS[kind]}")
    found = list(entry_points(group=GROUP, name=kind))
    if not found:
        raise KeyError(kind)
    if len({point.value for point in found}) > 1:
        whose = ", ".join(sorted(map(_whose, found)))
        raise InputError(f'system "{kind}": provided by more than one package: {whose}')
    return _loaded(found[0])


def _loaded(point: EntryPoint) -> ModuleType:
    what = f'system "{point.name}": {point.value}, of {_whose(point)},'
    try:
        module = point.load()
    except Exception as error:  # whatever a module of others does when it is imported
        raise InputError(f"{what} cannot be loaded: {error}") from error
    if lacking := [part for part in _PARTS if not hasattr(module, part)]:
        raise InputError(f"{what} has no {' and no '.join(lacking)}")
    loaded: ModuleType = module
    return loaded


def _whose(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
