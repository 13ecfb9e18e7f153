"""What tests of the library share."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcio import io_library
from hpcio.io_library import Configure


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def make(**keys: object) -> Path:
        return io_library.configure(tmp_path, **keys)

    return make


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    return tmp_path / "socket"
