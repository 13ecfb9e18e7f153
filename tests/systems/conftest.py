"""What the system tests of storage systems need of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest


@pytest.fixture
def need() -> Callable[..., None]:
    """Skip, and say why, where this machine cannot do something."""

    def check(*programs: str, namespaces: bool = False) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root")
        for program in programs:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
        if not Path("/dev/fuse").exists():
            pytest.skip("this kernel has no FUSE")
        if namespaces and not _namespaces_work():
            pytest.skip("this kernel lets nobody make network namespaces and bridges")

    return check


@cache
def _namespaces_work() -> bool:
    name = f"wprobe{os.getpid()}"
    made = ["ip", "link", "add", name[:15], "type", "bridge"]
    done = [
        subprocess.run(arguments, capture_output=True, check=False).returncode
        for arguments in (
            ["ip", "netns", "add", name],
            ["ip", "netns", "del", name],
            made,
            ["ip", "link", "del", name[:15]],
        )
    ]
    return done == [0, 0, 0, 0]
