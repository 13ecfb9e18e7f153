"""BeeGFS, mounted by others on the clients' hosts: found, described, and worked on.

    [hosts]
    clients = "node[1-4]"

    [[system]]
    name = "beegfs"
    options = { path = "/mnt/beegfs" }

Nothing is deployed: its client is a module of the kernel, and no distribution has it. What its
tools say of stripes and targets is asked of the first client.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from wattio.hosts.host import Host
from wattio.systems import beegfs_status as told
from wattio.systems import mounted
from wattio.systems.mounts import Mount

__all__ = ["Options", "Storage"]

_ASKED_S = 20.0
_CONFIGURATION = "cfgFile="
_USUAL = Path("/etc/beegfs/beegfs-client.conf")
_VERSION = Path("/sys/module/beegfs/version")

_TOOL_7, _TOOL_8 = "beegfs-ctl", "beegfs"


class Options(mounted.Options):
    """Where it is mounted."""

    path: str = Field(default="/mnt/beegfs", max_length=4096)  # a folder on it, on all hosts
    fs: str | None = "beegfs"  # the type that /proc/mounts has to show


class Storage(mounted.Storage):
    """A mounted BeeGFS."""

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `mount`."""
        super().__init__(options, scratch)

    def describe(self) -> dict[str, Any]:
        """What a mount shows, and what BeeGFS says of its version, settings, stripes, targets."""
        host = self._named()[self._clients[0]]
        found = facts(host, self._options.path, self._mount_of(host))
        return {**super().describe(), **found}


def facts(host: Host, path: str, mount: Mount) -> dict[str, Any]:
    """What a client of BeeGFS knows; what it does not say is left out."""
    named = [word for word in mount.options if word.startswith(_CONFIGURATION)]
    file = Path(named[-1].removeprefix(_CONFIGURATION)) if named else _USUAL
    tools = host.ask("which", names=[_TOOL_7, _TOOL_8])
    entry: Sequence[str]
    states: Sequence[str]
    if tools[_TOOL_8] is not None:
        entry = (_TOOL_8, "entry", "info", "--retro", path)
        states = (_TOOL_8, "target", "list", "--node-type", "storage", "--state")
    else:
        entry = (_TOOL_7, "--getentryinfo", path)
        where = f"--mount={mount.point}"
        states = (_TOOL_7, "--listtargets", "--nodetype=storage", "--state", where)
    found: dict[str, Any] = {
        "version": (_text(host.read(_VERSION))).strip(),
        "configuration": told.configuration(_text(host.read(file))),
    }
    if any(tools.values()):
        seen = told.targets(_said(host, states))
        found |= told.stripe(_said(host, entry))
        found |= {"targets": list(seen), "targets_away": [one for one in seen if not seen[one]]}
    return {key: value for key, value in found.items() if value}


def _said(host: Host, words: Sequence[str]) -> str:
    """What a program says; nothing where it fails, as some do for others than root."""
    ran = host.run(words, timeout_s=_ASKED_S)
    return _text(ran.out) if ran.code == 0 else ""


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")
