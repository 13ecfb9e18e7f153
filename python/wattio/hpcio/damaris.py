"""The `<architecture>` part of a Damaris XML file, read as a configuration and written as one.

    <dedicated cores="1" nodes="0"/>   cores of each node; or nodes, where cores is 0
    <buffer name="..." size="67108864"/>   bytes
    <domains count="1"/>, <queue .../>, ...  have no counterpart here

Damaris counts dedicated nodes in all, this middleware nodes for each one that writes: the number of
nodes has to be told. Damaris drops a dump when its buffer is full; `when_full` is left to the
caller, and blocks by default.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wattio.errors import InputError
from wattio.hpcio.config import Config

_DECLARATION = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def read(path: Path, nodes: int | None = None, **more: Any) -> Config:  # noqa: ANN401 (keys)
    """Read a Damaris XML file; `more` are keys of `Config` that it has no place for.

    `nodes` is the number of nodes of the job, which dedicated nodes are counted against. Raises
    InputError.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    try:
        return parse(text, nodes, **more)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse(text: str, nodes: int | None = None, **more: Any) -> Config:  # noqa: ANN401 (keys)
    """Read the text of a Damaris XML file. Raises InputError."""
    if _DECLARATION.search(text):
        raise InputError("document types and entities are not read")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (no entities are left)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise InputError(f"is not XML: {error}") from error
    architecture = next((one for one in root.iter() if _local(one) == "architecture"), None)
    if architecture is None:
        raise InputError("has no <architecture>")
    keys = _approach(architecture, nodes)
    if (size := _number(architecture, "buffer", "size")) is not None:
        keys["buffer"] = f"{size} B"
    try:
        return Config.model_validate({**keys, **more})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"<architecture>: {place}: {first['msg']}") from error


def write(config: Config, nodes: int, name: str = "wattio") -> str:
    """The `<architecture>` element for a job of so many nodes; indented by two blanks."""
    dedicated = -(-nodes // (config.ratio + 1)) if config.approach == "dn" else 0
    cores = config.writers if config.approach == "dc" else 0
    return (
        "<architecture>\n"
        '  <domains count="1"/>\n'
        f'  <dedicated cores="{cores}" nodes="{dedicated}"/>\n'
        f'  <buffer name="{name}" size="{int(config.buffer)}"/>\n'
        "</architecture>\n"
    )


def _approach(architecture: ElementTree.Element, nodes: int | None) -> dict[str, Any]:
    cores = _number(architecture, "dedicated", "cores") or 0
    dedicated = _number(architecture, "dedicated", "nodes") or 0
    if cores and dedicated:
        raise InputError("<dedicated>: cores and nodes together have no counterpart here")
    if cores:
        return {"approach": "dc", "writers": cores}
    if not dedicated:
        return {"approach": "tp"}
    if nodes is None:
        raise InputError('<dedicated nodes="...">: say how many nodes the job has')
    if nodes <= dedicated:
        raise InputError(f"<dedicated>: of {nodes} nodes, {dedicated} leave none to compute")
    ratio, rest = divmod(nodes - dedicated, dedicated)
    return {"approach": "dn", "ratio": ratio + bool(rest)}


def _number(architecture: ElementTree.Element, element: str, name: str) -> int | None:
    found = next((one for one in architecture.iter() if _local(one) == element), None)
    text = None if found is None else found.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text.strip()):
        raise InputError(f'<{element} {name}="{text}">: is no whole number')
    return int(text)


def _local(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
