"""Which ranks compute, which write, and who writes for whom; plain arithmetic on rank numbers.

Dedicated cores are the last ranks of each node; dedicated nodes are the last nodes. So rank 0
always computes, and the ranks that compute keep their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wattio.errors import InputError
from wattio.hpcio.config import Config
from wattio.hpcio.damaris import dedicated_nodes


@dataclass(frozen=True)
class Topology:
    """Roles of the ranks of a communicator."""

    nodes: tuple[int, ...]
    """The node of each rank, counted from 0."""

    writer_of: Mapping[int, int]
    """Who writes for each rank that computes: in time partitioning, itself."""

    idle: tuple[int, ...] = ()
    """Writers with nothing to write: a node has more of them than clients."""

    @property
    def computing(self) -> tuple[int, ...]:
        """The ranks that compute, ascending."""
        return tuple(sorted(self.writer_of))

    @property
    def writing(self) -> tuple[int, ...]:
        """The ranks that only write, ascending; empty in time partitioning."""
        return tuple(sorted((set(self.writer_of.values()) | set(self.idle)) - set(self.writer_of)))

    def clients(self, writer: int) -> tuple[int, ...]:
        """For whom a rank writes, ascending."""
        return tuple(sorted(rank for rank, by in self.writer_of.items() if by == writer))

    def share(self, rank: int, buffer_bytes: int) -> int:
        """A rank's part of the memory of its writer's node, in bytes."""
        node = self.nodes[self.writer_of[rank]]
        return buffer_bytes // sum(self.nodes[by] == node for by in self.writer_of.values())


def plan(config: Config, nodes: Sequence[int]) -> Topology:
    """Give each rank its role; `nodes` is the node of each rank. Raises InputError."""
    members: dict[int, list[int]] = {}
    for rank, node in enumerate(nodes):
        members.setdefault(node, []).append(rank)
    if config.approach == "tp":
        return Topology(tuple(nodes), {rank: rank for rank in range(len(nodes))})
    if config.approach == "dc":
        return _cores(config.writers, tuple(nodes), members)
    return _nodes(config.ratio, tuple(nodes), members)


def emulated(ranks: int, ranks_per_node: int) -> tuple[int, ...]:
    """Nodes of so many ranks each, the last one with what is left."""
    return tuple(rank // ranks_per_node for rank in range(ranks))


def _cores(writers: int, nodes: tuple[int, ...], members: Mapping[int, list[int]]) -> Topology:
    found: dict[int, int] = {}
    writing: list[int] = []
    for node, ranks in members.items():
        if len(ranks) <= writers:
            raise InputError(
                f"dc:{writers} takes {writers} of each node's ranks to write, and node {node} has"
                f" {len(ranks)}: no rank of it is left to compute; use fewer writers or other nodes"
            )
        found |= _spread(ranks[:-writers], ranks[-writers:])
        writing += ranks[-writers:]
    return Topology(nodes, found, _unused(found, writing))


def _nodes(ratio: int, nodes: tuple[int, ...], members: Mapping[int, list[int]]) -> Topology:
    if len(members) < 2:
        raise InputError(
            f"dn:{ratio} needs two nodes or more, and there is one: use tp or dc, or emulate nodes"
            " with ranks_per_node"
        )
    numbers = list(members)
    dedicated = dedicated_nodes(len(numbers), ratio)
    computing = [rank for node in numbers[:-dedicated] for rank in members[node]]
    writing = [rank for node in numbers[-dedicated:] for rank in members[node]]
    found = _spread(sorted(computing), writing)
    return Topology(nodes, found, _unused(found, writing))


def _unused(found: Mapping[int, int], writing: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(set(writing) - set(found.values())))


def _spread(clients: Sequence[int], writers: Sequence[int]) -> dict[int, int]:
    """Neighbours share a writer; writers differ by one client at most."""
    count = len(clients)
    return {rank: writers[at * len(writers) // count] for at, rank in enumerate(clients)}
