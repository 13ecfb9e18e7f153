"""The configuration of an approach: Damaris's XML, and the `[hpcio]` table of our middleware."""

from __future__ import annotations

from typing import Any

from wattio.files import toml_text
from wattio.models.approach import Approach

BUFFER = "256 MiB"


def damaris_xml(approach: Approach, nodes: int) -> str:
    """The `<architecture>` part of a Damaris configuration for a job of so many nodes."""
    from wattio.hpcio import damaris
    from wattio.hpcio.config import Config, parse_approach

    return damaris.write(Config(**parse_approach(str(approach))), nodes)


def hpcio_toml(approach: Approach) -> str:
    """The `[hpcio]` table that our middleware reads, with what it assumes where nothing is said."""
    table: dict[str, Any] = {"approach": approach.kind}
    if approach.kind == "dc":
        table["writers"] = approach.number
    if approach.kind == "dn":
        table["ratio"] = approach.number
    if approach.kind != "tp":
        table |= {"buffer": BUFFER, "when_full": "block"}
    table |= {"output": "output", "aggregation": "writer", "checksum": True}
    return toml_text.dump({"hpcio": table})
