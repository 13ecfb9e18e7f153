"""The `<architecture>` part of a Damaris XML file: keys of a configuration, read and written.

    <domains count="1"/>                   has no counterpart here
    <dedicated cores="1" nodes="0"/>       cores of each node; or nodes, where they are not 0
    <buffer name="..." size="67108864"/>   bytes
    <queue name="..." size="100"/>         messages on their way: has no counterpart here
    <placement/>                           which cores are dedicated: has no counterpart here

These are the elements that Damaris's schema asks for, in any order. Older versions do not know
`<placement>`, so it is written last. Damaris asks, too, that dedicated cores divide the other ones
of a node, and dedicated nodes the other nodes.

Damaris counts dedicated nodes in all, this middleware nodes for each one that writes: the number of
nodes has to be told, and numbers of dedicated nodes that no such ratio makes are refused (none that
Damaris allows). Damaris drops a dump when its buffer is full; `when_full` blocks by default.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Protocol
from xml.sax.saxutils import quoteattr

from wattio.errors import InputError
from wattio.files.named import read_bytes

_DECLARATION = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE)
_ENCODING = re.compile(rb"""<\?xml[^>]{0,100}encoding=["']([A-Za-z0-9._-]{1,40})["']""")
_NUMBER = re.compile(r"\+?[0-9]{1,18}", re.ASCII)

BUFFER_MAX = 2**32 - 1
"""Damaris's schema has 32 bits for the size of the buffer."""

_QUEUE = 300
"""Messages that a queue holds: one for each variable of a rank, and one for the end of a step."""


class Written(Protocol):
    """What a file tells of a `Config`, which knows this module and not the other way round."""

    @property
    def approach(self) -> str: ...  # noqa: D102 (as in Config)
    @property
    def writers(self) -> int: ...  # noqa: D102
    @property
    def ratio(self) -> int: ...  # noqa: D102
    @property
    def buffer(self) -> float: ...  # noqa: D102


def read(path: Path, nodes: int | None = None) -> dict[str, Any]:
    """Read the keys of `Config` from a Damaris XML file.

    `nodes` is the number of nodes of the job, which dedicated nodes are counted against. Raises
    InputError.
    """
    try:
        text = _decode(read_bytes(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    try:
        return parse(text, nodes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse(text: str, nodes: int | None = None) -> dict[str, Any]:
    """Read the text of a Damaris XML file as `read` does. Raises InputError."""
    if _DECLARATION.search(text):
        raise InputError("document types and entities are not read")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (no entities are left)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise InputError(f"is not XML: {error}") from error
    # `advise` prints the element alone.
    architecture = root if _local(root) == "architecture" else _element(root, "architecture")
    if architecture is None:
        raise InputError("has no <architecture>")
    keys = _approach(architecture, nodes)
    if (size := _number(architecture, "buffer", "size")) is not None:
        keys["buffer"] = f"{size} B"
    return keys


def write(config: Written, nodes: int, name: str = "wattio") -> str:
    """The `<architecture>` element for a job of so many nodes; indented by two blanks.

    Raises InputError for a buffer that Damaris could not have.
    """
    buffer = int(config.buffer)
    if buffer > BUFFER_MAX:
        raise InputError(f"buffer: {buffer} B; allowed in a Damaris file: up to {BUFFER_MAX} B")
    dedicated = dedicated_nodes(nodes, config.ratio) if config.approach == "dn" else 0
    cores = config.writers if config.approach == "dc" else 0
    return (
        "<architecture>\n"
        '  <domains count="1"/>\n'
        f'  <dedicated cores="{cores}" nodes="{dedicated}"/>\n'
        f'  <buffer name={quoteattr(name)} size="{buffer}"/>\n'
        f'  <queue name={quoteattr(name + "-queue")} size="{_QUEUE}"/>\n'
        "  <placement/>\n"
        "</architecture>\n"
    )


def _approach(architecture: ElementTree.Element, nodes: int | None) -> dict[str, Any]:
    if _element(architecture, "dedicated") is None:
        raise InputError(
            "<architecture>: has no <dedicated>, like files of old versions of Damaris"
        )
    cores = _number(architecture, "dedicated", "cores") or 0
    dedicated = _number(architecture, "dedicated", "nodes") or 0
    if not dedicated:
        # Where there are both, Damaris looks at nodes alone.
        return {"approach": "dc", "writers": cores} if cores else {"approach": "tp"}
    if nodes is None:
        raise InputError('<dedicated nodes="...">: say how many nodes the job has')
    if nodes <= dedicated:
        raise InputError(
            f"<dedicated>: dedicates {dedicated} of {nodes} nodes; none is left to compute"
        )
    ratio = -(-(nodes - dedicated) // dedicated)
    if (found := dedicated_nodes(nodes, ratio)) != dedicated:
        # This ratio makes fewer; the next smaller one, if there is one, makes more.
        more = f" or {dedicated_nodes(nodes, ratio - 1)}" if ratio > 1 else ""
        raise InputError(
            f"<dedicated>: no whole number of computing nodes for each one that writes dedicates"
            f" {dedicated} of {nodes} nodes; allowed next to it: {found}{more}"
        )
    return {"approach": "dn", "ratio": ratio}


def dedicated_nodes(nodes: int, ratio: int) -> int:
    """How many of so many nodes write if `ratio` that compute share one that writes."""
    return -(-nodes // (ratio + 1))


def _number(architecture: ElementTree.Element, element: str, name: str) -> int | None:
    found = _element(architecture, element)
    text = None if found is None else found.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text.strip()):
        raise InputError(f'<{element} {name}="{text}">: is not a whole number')
    return int(text)


def _element(architecture: ElementTree.Element, name: str) -> ElementTree.Element | None:
    return next((one for one in architecture if _local(one) == name), None)


def _decode(content: bytes) -> str:
    """The text of an XML file, by the encoding that it declares. Raises ValueError."""
    declared = _ENCODING.match(content)
    encoding = declared[1].decode() if declared else "utf-8"
    try:
        return content.decode("utf-8-sig" if encoding.lower() == "utf-8" else encoding)
    except LookupError as error:
        raise ValueError(str(error)) from error


def _local(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
