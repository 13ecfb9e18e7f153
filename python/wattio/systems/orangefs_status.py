"""What OrangeFS's tools tell of its servers. Text that is not of these forms tells nothing."""

from __future__ import annotations

import re

_VERSION = re.compile(r"^([0-9]+\.[0-9][^\s(]*)(?:\s|$)", re.MULTILINE)
_ANSWERED = re.compile(r"^\s*(\S+://\S+)\s+Ok\s*$", re.MULTILINE)


def version(text: str) -> str | None:
    """The version of `pvfs2-server -v`."""
    found = _VERSION.search(text)
    return None if found is None else found[1]


def answering(text: str) -> set[str]:
    """Servers that answered `pvfs2-ping`, by address."""
    return set(_ANSWERED.findall(text))
