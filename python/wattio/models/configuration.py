"""The configuration of an approach: Damaris's XML, and the `[hpcio]` table of our middleware."""

from __future__ import annotations

from wattio.models.approach import Approach, Resources
from wattio.study import toml_text

BUFFER = "256 MiB"
BUFFER_BYTES = 256 * 2**20


def damaris_xml(approach: Approach, used: Resources) -> str:
    """The `<architecture>` part of a Damaris configuration.

    Damaris takes dedicated cores per node, or dedicated nodes in all; none of both is time
    partitioning.
    """
    return (
        "<architecture>\n"
        '  <domains count="1" />\n'
        f'  <dedicated cores="{used.dedicated_cores}" nodes="{used.dedicated_nodes}" />\n'
        f'  <buffer name="buffer" size="{BUFFER_BYTES}" />\n'
        '  <queue name="queue" size="100" />\n'
        "</architecture>\n"
    )


def hpcio_toml(approach: Approach) -> str:
    """The `[hpcio]` table that our middleware reads, with what it assumes where nothing is said."""
    table: dict[str, object] = {"approach": approach.kind}
    if approach.kind == "dc":
        table["writers"] = approach.number
    if approach.kind == "dn":
        table["ratio"] = approach.number
    if approach.kind != "tp":
        table |= {"buffer": BUFFER, "when_full": "block"}
    table |= {"output": "output", "aggregation": "writer", "checksum": True}
    return toml_text.dump({"hpcio": table})
