"""Names of hosts as clusters write them: `node[1-4,7],gateway`."""

from __future__ import annotations

import re

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

NAMES_MAX = 4096
"""How many hosts one study may have."""

_TEXT = re.compile(r"[A-Za-z0-9._,\[\]/-]{1,1000}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_LONG = re.compile(r"[0-9]{7}")
_RANGE = re.compile(r"\[[0-9][0-9,/-]{0,200}\]")
_FORM = 'write them as "node[1-4],gateway"'


def expand(text: str) -> list[str]:
    """The hosts of such a text, as clusters sort them (node2 before node10). Raises ValueError."""
    # What is no name of a host might be taken for an option of ssh; and a range of a thousand
    # millions would be written out before it could be counted.
    if not _TEXT.fullmatch(text):
        raise ValueError(f'"{text[:80]}" names no hosts; {_FORM}')
    ranges = re.findall(r"\[([^\]]*)\]", text)
    if any(_LONG.search(one) for one in ranges) or len(ranges) > 2:
        raise ValueError(
            f'"{text[:80]}" names more than {NAMES_MAX} hosts; allowed: at most {NAMES_MAX}'
        )
    try:
        found = NodeSet(text, resolver=RESOLVER_NOGROUP)
    except NodeSetException as error:
        raise ValueError(f'"{text[:80]}": {error}; {_FORM}') from None
    if len(found) > NAMES_MAX:
        raise ValueError(f'"{text[:80]}" names {len(found)} hosts; allowed: at most {NAMES_MAX}')
    names = [str(name) for name in found]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f'"{name}" is not a host name; {_FORM}')
    return names


def expand_within(text: str) -> list[str]:
    """A text once for each number of its one range: `outlet=[1-3]` as three. Raises ValueError."""
    ranges = list(_RANGE.finditer(text))
    if len(ranges) != 1:
        raise ValueError(f'"{text}" has {len(ranges) or "no"} ranges; write one, as in "[1-9]"')
    (found,) = ranges
    numbers = [name.removeprefix("n") for name in expand(f"n{found[0]}")]
    return [text[: found.start()] + number + text[found.end() :] for number in numbers]


def fold(names: list[str]) -> str:
    """Such a text of names."""
    return str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
