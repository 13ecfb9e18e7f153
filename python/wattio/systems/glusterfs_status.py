"""What `gluster` tells of its servers. Text that is not of these forms tells nothing."""

from __future__ import annotations

import re
from xml.etree import ElementTree

_VERSION = re.compile(r"glusterfs ([0-9][0-9.]*)")


def version(text: str) -> str | None:
    """The version of `gluster --version`."""
    found = _VERSION.search(text)
    return None if found is None else found[1]


def connected(text: str) -> int:
    """How many servers of `gluster pool list` are connected, the one that tells it among them."""
    return sum(line.split()[-1:] == ["Connected"] for line in text.splitlines())


def online(text: str) -> list[str]:
    """Servers that run, of `gluster volume status --xml`: a brick's address and path, or a name."""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (of our own server)
    except (ElementTree.ParseError, ValueError):
        return []
    found = []
    for node in root.iter("node"):
        if node.findtext("status") == "1":
            host, path = node.findtext("hostname") or "", node.findtext("path") or ""
            found.append(f"{host}:{path}" if path.startswith("/") else host)
    return found


def unsettled(text: str) -> int:
    """How many entries a listing of bricks' own folders has that stand for work left.

    One that is named for its folder (`xattrop-...`) is that which others are links to.
    """
    names = [line.rpartition("/")[2] for line in text.splitlines() if line.strip()]
    return sum(not name.startswith(("xattrop-", "dirty-", "entry-changes-")) for name in names)
