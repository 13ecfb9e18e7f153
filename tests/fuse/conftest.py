"""What the tests on fake trees share."""

from __future__ import annotations

import pytest

from fuse.mount import missing


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, and say why, where no tree can be mounted."""
    if item.get_closest_marker("system") is not None and (lack := missing()):
        pytest.skip(lack)
