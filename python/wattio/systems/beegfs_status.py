"""What BeeGFS's tools and files tell. Text that is not of these forms tells nothing.

The tool of BeeGFS 8 prints an entry as that of 7 does when it is asked to (`--retro`).
"""

from __future__ import annotations

import re
from typing import Any

_FIELD = re.compile(r"^\+ ([^:\n]+):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_SIZE = re.compile(r"([0-9]+)([KMG]?)")
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_TARGET = re.compile(r"^\s*([0-9]+)\s+(.*)$", re.MULTILINE)
_SETTING = re.compile(r"^[ \t]*([A-Za-z][A-Za-z0-9]*)[ \t]*=[ \t]*(.*?)[ \t]*$", re.MULTILINE)

SETTINGS = (
    "sysMgmtdHost",
    "sysSessionChecksEnabled",
    "tuneFileCacheType",
    "tuneFileCacheBufSize",
    "tuneRemoteFSync",
    "tuneUseGlobalFileLocks",
    "tuneUseGlobalAppendLocks",
    "tuneNumWorkers",
    "connMaxInternodeNum",
    "connUseRDMA",
)
"""What of a client's configuration bears on what is measured; where keys lie is not told."""


def stripe(text: str) -> dict[str, Any]:
    """How a folder's files lie on targets, of `beegfs-ctl --getentryinfo`."""
    fields = dict(_FIELD.findall(text))
    found: dict[str, Any] = {}
    if "Type" in fields:
        found["pattern"] = fields["Type"]
    size = _SIZE.fullmatch(fields.get("Chunksize", "").upper())
    if size is not None:
        found["chunk_bytes"] = int(size[1]) * _FACTOR[size[2]]
    desired = re.search(r"desired: ([0-9]+)", fields.get("Number of storage targets", ""))
    if desired is not None:
        found["targets_per_file"] = int(desired[1])
    if "Storage Pool" in fields:
        found["storage_pool"] = " ".join(fields["Storage Pool"].split())
    return found


def targets(text: str) -> dict[str, bool]:
    """Targets by number, and whether each can be reached, of their list with states."""
    return {number: "Online" in rest.split() for number, rest in _TARGET.findall(text)}


def configuration(text: str) -> dict[str, str]:
    """What bears on measurements of a client's configuration file."""
    given = dict(_SETTING.findall(text))
    return {name: given[name] for name in SETTINGS if given.get(name)}
