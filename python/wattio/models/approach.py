"""The I/O approaches: which cores and nodes each leaves to the simulation, its configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from wattio.errors import InputError
from wattio.hpcio.config import parse_approach

Kind = Literal["tp", "dc", "dn"]

BUFFER_BYTES = 256 << 20
"""Of each node, in the configurations that are written; more where a dump needs more."""

_SPARE = 1.125
"""Ranks of a node hold unequal parts of a dump, and the buffer is divided evenly."""

_BUFFER_MAX = 1 << 52
"""What our middleware allows."""

_COUNTS = {1: "ONE", 2: "TWO"}


@dataclass(frozen=True)
class Approach:
    """Time partitioning, dedicated cores or dedicated nodes.

    `number` is the dedicated cores of each node (`dc`) or the computing nodes for each dedicated
    one (`dn`), and 0 with `tp`.
    """

    kind: Kind
    number: int = 0

    def __str__(self) -> str:
        """As the command line takes it."""
        return self.kind if self.kind == "tp" else f"{self.kind}:{self.number}"

    @property
    def title(self) -> str:
        """As Dorier et al. 2016 write it: TP, DC(ONE), DN(7:1)."""
        if self.kind == "tp":
            return "TP"
        if self.kind == "dc":
            return f"DC({_COUNTS.get(self.number, self.number)})"
        return f"DN({self.number}:1)"


def parse(text: str) -> Approach:
    """Read `tp`, `dc:N` or `dn:R`, as the middleware does. Raises InputError."""
    keys = parse_approach(text)
    return Approach(keys["approach"], keys.get("writers", keys.get("ratio", 0)))


@dataclass(frozen=True)
class Resources:
    """What computes and what writes: Table 1 of Dorier et al. 2016.

    All dedicated cores write, and all cores of a dedicated node, as ranks on them do with Damaris
    and with ours; but never more than there are cores that compute, for whom they would write.
    """

    compute_nodes: int
    compute_cores: int
    dedicated_nodes: int
    dedicated_cores: int
    writers: int

    @property
    def nodes(self) -> int:
        """All nodes."""
        return self.compute_nodes + self.dedicated_nodes


def resources(approach: Approach, nodes: int, cores: int) -> Resources:
    """How an approach divides nodes of so many cores; cores are those of each computing node.

    Raises InputError where nothing would be left to compute with.
    """
    if approach.kind == "tp":
        return Resources(nodes, cores, 0, 0, nodes * cores)
    if approach.kind == "dc":
        if approach.number >= cores:
            raise InputError(
                f"{approach}: none of a node's {cores} cores would compute;"
                f" allowed: dc:1 to dc:{cores - 1}"
                if cores > 1
                else f"{approach}: a node of one core has none to dedicate; allowed: tp, dn:R"
            )
        dedicated, computing = approach.number, cores - approach.number
        return Resources(nodes, computing, 0, dedicated, nodes * min(dedicated, computing))
    if nodes < 2:
        raise InputError(f"{approach}: one node cannot be divided; allowed: tp, dc:N")
    dedicated = math.ceil(nodes / (approach.number + 1))
    writing = min(dedicated, nodes - dedicated)
    return Resources(nodes - dedicated, cores, dedicated, 0, writing * cores)


def usual(nodes: int, cores: int) -> list[Approach]:
    """The document's five approaches, as far as these nodes and cores allow them.

    Where there are fewer nodes than a ratio asks for, one writes for all others: dn:7 on eight
    nodes, in place of dn:15. Of several that come to the same, the first.
    """
    found = [Approach("tp")]
    found += [Approach("dc", number) for number in (1, 2) if number < cores]
    if nodes >= 2:
        found += [Approach("dn", min(number, nodes - 1)) for number in (15, 7)]
    distinct: dict[Resources, Approach] = {}
    for one in found:
        distinct.setdefault(resources(one, nodes, cores), one)
    return list(distinct.values())


def part_bytes(used: Resources, dump_bytes: float) -> float:
    """The part of a dump that a node takes at a time, whole, as the model has it.

    With time partitioning none: ranks wait, and their blocks may come one after the other.
    """
    nodes = used.dedicated_nodes or (used.compute_nodes if used.dedicated_cores else 0)
    return _SPARE * dump_bytes / nodes if nodes else 0.0


def buffer_bytes(used: Resources, dump_bytes: float) -> int:
    """A power of two that holds `part_bytes`: a block above its rank's share would be refused."""
    part = min(part_bytes(used, dump_bytes), float(_BUFFER_MAX))
    return max(BUFFER_BYTES, 1 << math.ceil(math.log2(max(part, 1.0))))


def damaris_xml(approach: Approach, nodes: int, buffer: int = BUFFER_BYTES) -> str:
    """The `<architecture>` part of a Damaris configuration for a job of so many nodes.

    Damaris has no buffer above `damaris.BUFFER_MAX`: it gets that then.
    """
    from wattio.hpcio import damaris
    from wattio.hpcio.config import Config, parse_approach

    keys = parse_approach(str(approach)) | {"buffer": f"{min(buffer, damaris.BUFFER_MAX)} B"}
    return damaris.write(Config(**keys), nodes)


def hpcio_toml(approach: Approach, buffer: int = BUFFER_BYTES) -> str:
    """The `[hpcio]` table that our middleware reads, with what it assumes where nothing is said."""
    from wattio.files import toml_text

    table: dict[str, Any] = {"approach": approach.kind}
    if approach.kind == "dc":
        table["writers"] = approach.number
    if approach.kind == "dn":
        table["ratio"] = approach.number
    if approach.kind != "tp":
        table |= {"buffer": f"{buffer >> 20} MiB", "when_full": "block"}
    table |= {"output": "output", "checksum": True}
    return toml_text.dump({"hpcio": table})
