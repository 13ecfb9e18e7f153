"""Hosts without machines: an `ssh` that runs the command here."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wattio.hosts.host import Access, Host

_SSH = """#!/bin/sh
while [ "$1" != "--" ]; do shift; done
shift 2
exec /bin/sh -c "exec $*"
"""

MakeHost = Callable[..., Host]


@pytest.fixture
def local_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put such an `ssh` first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(_SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return program


@pytest.fixture
def make_host(local_ssh: Path) -> Iterator[MakeHost]:
    """Make hosts that are this machine, each with a name that no other test has."""
    made: list[Host] = []

    def make(name: str | None = None, **access: object) -> Host:
        host = Host(name or f"t{uuid.uuid4().hex[:12]}", Access(**access))  # type: ignore[arg-type]
        made.append(host)
        return host

    yield make
    for host in made:
        host.close()
