"""What JULEA's tools tell. Text that is not of these forms tells nothing."""

from __future__ import annotations

import re

_VERSION = re.compile(r"^(?:Version:\s*)?([0-9]+(?:\.[0-9]+)*)\s*$", re.MULTILINE)
_SERVER = re.compile(r"^Data server ([0-9]+)$", re.MULTILINE)


def version(text: str) -> str | None:
    """The version of its pkg-config file, or of `pkg-config --modversion`."""
    found = _VERSION.search(text)
    return None if found is None else found[1]


def answering(text: str) -> int:
    """How many servers told `julea-statistics` what they have done."""
    return len(set(_SERVER.findall(text)))


def configuration(text: str) -> str | None:
    """The file that `julea-config` printed; None if it printed none."""
    begin = re.search(r"^\[core\]$", text, re.MULTILINE)
    whole = begin is not None and re.search(r"^\[servers\]$", text, re.MULTILINE) is not None
    return text[begin.start() :] if begin is not None and whole else None
