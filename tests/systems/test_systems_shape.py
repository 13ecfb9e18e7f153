"""Every system has the shape, and the template shows a complete one."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel
from wattio.errors import SystemFailed
from wattio.files.document import Strict
from wattio.systems import KINDS, mounts, template
from wattio.systems.system import System

MODULES = sorted({*KINDS.values(), "template"})
NEEDED: dict[str, dict[str, Any]] = {"mounted": {"path": "/mnt"}}
"""What cannot have a default."""

STEPS = [name for name, _ in inspect.getmembers(System, inspect.isfunction) if name[0] != "_"]


@pytest.mark.parametrize("name", MODULES)
def test_a_system_has_the_shape(name: str, tmp_path: Path) -> None:
    module: Any = import_module(f"wattio.systems.{name}")
    assert issubclass(module.Options, Strict)
    storage: System = module.Storage(module.Options(**NEEDED.get(name, {})), tmp_path)
    for step in STEPS:
        wanted, given = getattr(System, step), getattr(type(storage), step)
        assert given.__doc__, f"{name}.{step} says what it does"
        assert list(inspect.signature(given).parameters) == list(
            inspect.signature(wanted).parameters
        )
        assert get_type_hints(given) == get_type_hints(wanted)
    assert list(tmp_path.iterdir()) == []  # making one changes nothing


@pytest.mark.parametrize("name", MODULES)
def test_options_are_told_as_plain_data(name: str) -> None:
    module = import_module(f"wattio.systems.{name}")
    options: BaseModel = module.Options(**NEEDED.get(name, {}))
    json.dumps(options.model_dump(mode="json"))


def test_the_template_is_for_reading_only() -> None:
    assert "template" not in KINDS.values()


def typed_as_system(options: template.Options, scratch: Path) -> System:
    """The type checker refuses this line where the template lacks a part of the shape."""
    return template.Storage(options, scratch)


@pytest.mark.system
def test_the_template_works(need: Callable[..., None], tmp_path: Path) -> None:
    need("mount", "umount")
    options = template.Options.model_validate({"size": "1 MiB"})
    scratch = tmp_path / "scratch"
    storage = typed_as_system(options, scratch)
    try:
        storage.probe()
        storage.deploy()
        storage.start()
        storage.start()
        with pytest.raises(SystemFailed, match="nothing is mounted"):
            storage.verify_mount()
        first, second = storage.mount(2)
        storage.verify_mount()
        (first.folder / "file").write_text("shared")
        assert (second.folder / "file").read_text() == "shared"
        facts = storage.describe()
        assert facts["file_system"] == "tmpfs"
        assert facts["raw_capacity_bytes"] == 1 << 20
        # A run that died here is removed by the next one.
        again = typed_as_system(options, scratch)
        again.deploy()
        assert mounts.below(tmp_path) == []
        for _ in range(2):
            again.unmount()
            again.stop()
            again.clean()
    finally:
        storage.clean()
    assert not (tmp_path / "scratch").exists()
