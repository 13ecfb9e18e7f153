"""Hosts that share this machine's files, for tests of what is said to others."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from wattio import clock
from wattio.hosts.clocks import Offset
from wattio.hosts.host import Access
from wattio.hosts.hosts import Hosts
from wattio.workloads.ranks import boot


class _Host:
    facts: Mapping[str, str] = {"boot": boot()}
    offset = Offset(0, 0, 0, clock.now())

    def ask(self, what: str, path: str) -> None:
        assert what == "folder"
        Path(path).mkdir(parents=True, exist_ok=True)

    def run(self, arguments: Sequence[str], timeout_s: float) -> None:
        subprocess.run(arguments, check=True, timeout=timeout_s)


class _Hosts:
    access = Access()

    def __getitem__(self, name: str) -> _Host:
        return _Host()


def shared_hosts() -> Hosts:
    return cast(Hosts, _Hosts())
