"""What Ceph tells of itself as JSON. Text that is not of these forms tells nothing."""

from __future__ import annotations

import json
import re
from typing import Any

_VERSION = re.compile(r"ceph version ([0-9][0-9.]*)")


def version(text: str) -> str | None:
    """The version of `ceph --version`."""
    found = _VERSION.search(text)
    return None if found is None else found[1]


def osds_up(text: str) -> int:
    """How many OSDs of `ceph osd stat` serve."""
    count = _json(text).get("num_up_osds")
    return count if isinstance(count, int) else 0


def metadata_active(text: str) -> bool:
    """Whether a metadata server of `ceph mds stat` is active."""
    systems = _dict(_json(text).get("fsmap")).get("filesystems")
    for system in systems if isinstance(systems, list) else []:
        servers = _dict(_dict(_dict(system).get("mdsmap")).get("info"))
        if any(_dict(server).get("state") == "up:active" for server in servers.values()):
            return True
    return False


def groups_clean(text: str, wanted: int) -> bool:
    """Whether so many placement groups at least are there, of `ceph pg stat`, and all serve."""
    summary = _dict(_json(text).get("pg_summary"))
    states = summary.get("num_pg_by_state")
    groups = summary.get("num_pgs")
    clean = 0
    for state in states if isinstance(states, list) else []:
        one = _dict(state)
        count = one.get("num")
        if str(one.get("name", "")).startswith("active+clean") and isinstance(count, int):
            clean += count
    return isinstance(groups, int) and clean == groups and groups >= wanted


def deletes_left(text: str) -> int | None:
    """Files that are deleted and not yet removed, of a metadata server's `perf dump`.

    Strays are deleted and wait for somebody who still has them open, or for their turn; the purge
    queue has those whose objects are to be removed, and are being. None if it does not say.
    """
    told = _json(text)
    strays = _dict(told.get("mds_cache")).get("num_strays")
    queue = _dict(told.get("purge_queue"))
    counts = [strays, queue.get("pq_item_in_journal"), queue.get("pq_executing")]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if known else None


def _json(text: str) -> dict[str, Any]:
    """What a text says; programs may write warnings before it."""
    start = text.find("{")
    if start < 0:
        return {}
    try:
        return _dict(json.JSONDecoder().raw_decode(text, start)[0])
    except (ValueError, RecursionError):
        return {}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
