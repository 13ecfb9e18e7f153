"""Servers that are killed, and are gone before anybody looks for them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from wattio.systems import servers
from wattio.systems.commands import wait_until

GONE_S = 20.0


def kill(program: str, folder: Path) -> None:
    """Kill the one server of a program in a folder."""
    [pid] = servers.running([program], folder)
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not servers.running([program], folder), GONE_S)
