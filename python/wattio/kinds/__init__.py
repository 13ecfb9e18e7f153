"""The kinds of studies, siblings of one shape: schema, plan, execute, metrics, summary."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from wattio.results.folder import kind_of


def module_of(result: Path, name: str) -> ModuleType:
    """A module of the kind that a result folder is of. Raises ResultError."""
    return import_module(f"wattio.kinds.{kind_of(result)}.{name}")
