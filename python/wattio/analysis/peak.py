"""Theoretical peak performance: what the parts along the data path allow at most.

Two rules, by name. `thesis` takes the least of three sums over the whole cluster: the clients'
memory, the network, the servers' disks (the thesis, equation 4.1). `nodes` takes the lesser of
network and disks in each node and adds up the nodes; memory has no say (Erxleben et al., Table I).
Both neglect caches, protocols and computing; work that a cache serves goes beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from wattio.analysis.efficiency import share_of_peak

Kind = Literal["memory", "network", "disk"]
Rule = Literal["thesis", "nodes"]
Measure = Literal["throughput_mib_s", "iops"]
Direction = Literal["read", "write"]

KINDS: tuple[Kind, ...] = get_args(Kind)
RULES: tuple[Rule, ...] = get_args(Rule)


class Quantity(NamedTuple):
    """What is measured, and in which direction data goes."""

    measure: Measure
    direction: Direction


QUANTITIES = tuple(Quantity(m, d) for m in get_args(Measure) for d in get_args(Direction))

CONTESTED_DEVIATIONS = 2.0
"""Two parts closer than so many deviations of their difference: either may be the limit."""

_READING = ("read", "stat", "list")
_WRITING = ("write", "creat", "remov", "delet", "unlink", "mkdir", "rmdir", "renam")


@dataclass(frozen=True)
class Rate:
    """A measured rate of one unit: mean, standard deviation of the sample, how many values."""

    mean: float
    deviation: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Part:
    """Equal units of one kind: `per_node` in each of `nodes` equal nodes called `node`.

    It counts only for the quantities that it has a rate for, so that disks of data and of metadata
    can stand side by side. `where` names the unit: a folder, a host, an address.
    """

    kind: Kind
    rates: Mapping[Quantity, Rate]
    node: str = "node"
    nodes: int = 1
    per_node: int = 1
    where: str = ""

    @property
    def units(self) -> int:
        """How many units there are in all nodes."""
        return self.nodes * self.per_node


@dataclass(frozen=True)
class Total:
    """The sum over units of one kind: their number, the sum, and its standard deviation."""

    kind: Kind
    units: int
    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Change:
    """What would lift a limit to where the next part limits: `factor` times faster units, or more.

    `more_units` is how many more of the same mean rate; `reaches` is the peak after that, and
    `then` what limits from there on. `node` is None if the rule looks at the whole cluster.
    """

    kind: Kind
    node: str | None
    units: int
    factor: float
    more_units: int
    reaches: float
    then: Kind


@dataclass(frozen=True)
class Limit:
    """The theoretical peak of one quantity by one rule.

    `limiting` are the kinds that limit, the one that limits the most of it first. `margin` is the
    next higher sum over the least one, and `contested` says that noise could exchange them; both
    None if nothing was known to compare with. `totals` are the sums over the cluster of every
    kind that the rule takes, and `missing` the kinds without a rate. `halves` are nodes of which
    the rule `nodes` knew the network or the disks only: the peak is too high if they have both.
    """

    rule: Rule
    quantity: Quantity
    mean: float
    deviation: float | None
    limiting: tuple[Kind, ...]
    margin: float | None
    contested: bool | None
    totals: tuple[Total, ...]
    missing: tuple[Kind, ...]
    halves: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Peak:
    """The parts of a cluster, and the rule by which results are compared with their peak."""

    name: str
    parts: tuple[Part, ...]
    rule: Rule = "thesis"

    def limit(self, quantity: Quantity, rule: Rule | None = None) -> Limit | None:
        """The peak of a quantity, by the peak's own rule where none is given."""
        return limit(self.parts, quantity, rule or self.rule)

    def share(
        self, operation: str, *, throughput_mib_s: float | None = None, iops: float | None = None
    ) -> float | None:
        """A result as a share of the peak, 1 being all of it; more where a cache helped.

        With both rates it is the greater share, of the bound that the work comes nearer to: large
        blocks are bound by throughput, small ones by I/Os per second. Operations on metadata count
        as small reads (stat) or small writes (create, remove, rename). None for an operation of no
        known direction, and where the peak is not known.
        """
        direction = direction_of(operation)
        if direction is None:
            return None
        shares = (
            self._share(Quantity("throughput_mib_s", direction), throughput_mib_s),
            self._share(Quantity("iops", direction), iops),
        )
        return max((share for share in shares if share is not None), default=None)

    def _share(self, quantity: Quantity, value: float | None) -> float | None:
        found = None if value is None else self.limit(quantity)
        return None if value is None or found is None else share_of_peak(value, found.mean)


def direction_of(operation: str) -> Direction | None:
    """Whether an operation reads or writes, by its name: `read`, `file_stat`, `directory_create`.

    None for names that say neither, or both.
    """
    name = operation.lower()
    reads = any(word in name for word in _READING)
    writes = any(word in name for word in _WRITING)
    if reads == writes:
        return None
    return "read" if reads else "write"


def limit(parts: Sequence[Part], quantity: Quantity, rule: Rule) -> Limit | None:
    """The theoretical peak of a quantity over parts; None without a rate of network or disks.

    Deviations of units add in squares, as those of independent measurements; the peak's is that of
    the limiting sum, or None if one of its units has none. Raises ValueError where the rule
    `nodes` is asked for and parts of one node disagree on how many such nodes there are.
    """
    known = [part for part in parts if quantity in part.rates]
    if not any(part.kind != "memory" for part in known):
        return None
    return _by_sums(known, quantity) if rule == "thesis" else _by_nodes(known, quantity)


def _by_sums(parts: Sequence[Part], quantity: Quantity) -> Limit:
    """The least of the sums: the thesis, equation 4.1."""
    totals = _totals(parts, quantity, KINDS)
    ordered = sorted(totals, key=lambda total: total.mean)
    least, changes = ordered[0], tuple(_changes(None, ordered))
    following = ordered[1] if len(ordered) > 1 else None
    return Limit(
        "thesis",
        quantity,
        least.mean,
        least.deviation,
        (least.kind,),
        following.mean / least.mean if following else None,
        _contested(least, following) if following else None,
        totals,
        tuple(kind for kind in KINDS if kind not in {total.kind for total in totals}),
        (),
        changes,
    )


def _by_nodes(parts: Sequence[Part], quantity: Quantity) -> Limit:
    """The sum over nodes of the lesser of network and disks: Erxleben et al., Table I."""
    kinds: tuple[Kind, ...] = ("network", "disk")
    groups: dict[str, list[Part]] = {}
    for part in parts:
        if part.kind in kinds:
            groups.setdefault(part.node, []).append(part)
    means: dict[Kind, float] = {}
    deviations: list[float | None] = []
    margins, contested, changes, halves = [], [], [], []
    for node, members in groups.items():
        if len({part.nodes for part in members}) > 1:
            raise ValueError(f'parts of node "{node}" disagree on the number of such nodes')
        ordered = sorted(_totals(members, quantity, kinds), key=lambda total: total.mean)
        least = ordered[0]
        means[least.kind] = means.get(least.kind, 0.0) + least.mean
        deviations.append(least.deviation)
        if len(ordered) > 1:
            margins.append(ordered[1].mean / least.mean)
            contested.append(_contested(least, ordered[1]))
            changes += _changes(node, ordered)
        else:
            halves.append(node)
    totals = _totals(parts, quantity, kinds)
    return Limit(
        "nodes",
        quantity,
        math.fsum(means.values()),
        _in_squares(deviations),
        tuple(sorted(means, key=lambda kind: -means[kind])),
        min(margins, default=None),
        any(contested) if contested else None,
        totals,
        tuple(kind for kind in kinds if kind not in {total.kind for total in totals}),
        tuple(halves) if len(totals) > 1 else (),
        tuple(changes),
    )


def _totals(parts: Sequence[Part], quantity: Quantity, kinds: Sequence[Kind]) -> tuple[Total, ...]:
    """The sums of the kinds that have a rate."""
    found = []
    for kind in kinds:
        members = [part for part in parts if part.kind == kind and quantity in part.rates]
        if not members:
            continue
        rates = [part.rates[quantity] for part in members]
        mean = math.fsum(p.units * r.mean for p, r in zip(members, rates, strict=True))
        each = [
            None if r.deviation is None else math.sqrt(p.units) * r.deviation
            for p, r in zip(members, rates, strict=True)
        ]
        units = sum(part.units for part in members)
        found.append(Total(kind, units, mean, _in_squares(each)))
    return tuple(found)


def _in_squares(deviations: Sequence[float | None]) -> float | None:
    """The deviation of a sum of independent values; None if one is not known."""
    known = [deviation for deviation in deviations if deviation is not None]
    return math.hypot(*known) if len(known) == len(deviations) else None


def _contested(least: Total, following: Total) -> bool | None:
    """Whether noise could exchange two sums; None if a deviation is not known."""
    if least.deviation is None or following.deviation is None:
        return None
    noise = math.hypot(least.deviation, following.deviation)
    return following.mean - least.mean <= CONTESTED_DEVIATIONS * noise


def _changes(node: str | None, ordered: Sequence[Total]) -> list[Change]:
    """What lifts the least sum to the next one; nothing where there is no higher one."""
    least = ordered[0]
    higher = [total for total in ordered[1:] if total.mean > least.mean]
    if not higher or least.mean <= 0:
        return []
    then = higher[0]
    each = least.mean / least.units
    # A hair below a whole number of units is that number: sums of rates carry rounding.
    wanted = math.ceil(then.mean / each - 1e-9)
    factor = then.mean / least.mean
    more = wanted - least.units
    return [Change(least.kind, node, least.units, factor, more, then.mean, then.kind)]
