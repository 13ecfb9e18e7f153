"""Memory for dumps: what others leave of theirs, how much is free, and what is held how long."""

from __future__ import annotations

import socket
from pathlib import Path

from wattio.hpcio import leftovers


def test_a_segment_that_goes_while_it_is_looked_at_is_not_ours(tmp_path: Path) -> None:
    """A job that ended beside one that started once ended that one, too."""
    host = socket.gethostname().partition(".")[0]
    assert not leftovers._is_ours(tmp_path / f"sm_segment.{host}.0.1.0", 2000)
