"""What the tests in a guest share."""

from __future__ import annotations

import pytest

from guest import image
from guest.guest import Guest


@pytest.fixture(scope="session")
def guest() -> Guest:
    """A guest to run scripts in; its image is built once, and cached."""
    lacking = image.missing()
    if lacking:
        pytest.skip(f"the guest needs the Debian packages {' '.join(lacking)}")
    return Guest(image.build())
