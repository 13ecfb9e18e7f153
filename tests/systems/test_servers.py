"""Servers in the background are found by what they were started with, and all of them are ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest
from wattio.systems import servers


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        (["/opt/bin/julea-server", "--port", "1"], True),
        (["julea-server (data: /x)"], True),
        # On its way to become the server.
        (["sh", "-ec", "setsid ...", "sh", "/x", "/opt/bin/julea-server", "--port", "1"], True),
        (["setsid", "env", "A=1", "julea-server"], True),
        # What only speaks of it.
        (["grep", "julea-server", "log"], False),
        (["sh", "-c", "tail /var/julea-server"], False),
        (["sh"], False),
        ([""], False),
    ],
    ids=str,
)
def test_a_server_is_told_by_its_arguments(command: list[str], is_one: bool) -> None:
    told = b"\0".join(map(os.fsencode, command)) + b"\0"
    root = Path("/scratch/julea")
    assert servers.belongs(told, root / "1", ["julea-server"], root) == is_one
    assert not servers.belongs(told, Path("/"), ["julea-server"], root)


def test_one_that_appears_while_the_others_are_killed_is_killed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked for to the end of the time, and never told to end."""
    late = subprocess.Popen(["sleep", "600"])
    looks = 0

    def is_one(entry: Path, names: Collection[str], folder: Path) -> bool:
        nonlocal looks
        if entry.name != str(late.pid):
            return False
        looks += 1
        return looks > 1 and late.poll() is None

    monkeypatch.setattr(servers, "_is_one", is_one)
    monkeypatch.setattr(servers, "KILLED_S", 5.0)
    try:
        servers.end(["sleep"], tmp_path, 0.0)
        assert late.wait(5) == -signal.SIGKILL
    finally:
        late.kill()
        late.wait()
