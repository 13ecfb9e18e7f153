"""What bounds a storage cluster, what to buy for it, and how many nodes a rate takes.

The thesis's section 6.6 as a computation. Each part of the cluster allows a rate at most: the
servers' links and devices, the clients' memory and links, the servers' processors. The least of
these is the limit L, by the rule of the peak. What a run reached, r, is held against it. Of L, a
share e can be had at all, for headers, protocols and gaps take some of every part; the time of a
unit of work is what that takes, and a rest o that the limit does not explain:

    1/r = 1/(e L) + o,      after a change      1/r' = 1/(e L') + o,

so that a part that hardly limits is worth little when it is lifted. e is not known: it is drawn
evenly between what was reached (NEAR, where that was less) and 1, so that what a part near its
limit lacks is partly its own, and grows with it, and partly not. The rest is the nodes' own: it
stays where their parts become faster, and is spread over more where there are more of them. Beside
it stands the linear rule: every node as it is now, whatever it is given.

Rates of parts are drawn as normal with the deviations of the peak; rates and powers of runs from
Student's t of their logarithms over repetitions, both of a repetition together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattio.analysis.cluster import Achieved
from wattio.analysis.peak import Kind
from wattio.analysis.statistics import Interval
from wattio.models.cluster_parts import BOUND_OF, LABELS, Bound, Cluster, least
from wattio.models.parameter import interval
from wattio.models.purchases import Purchase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Draws = NDArray[np.float64]

NEAR = 0.8
"""A part that is used by so much of what it allows bounds; below that something else does.

Less than that of a part is never taken for all that can be had of it.
"""

_EXPONENT_MAX = 50.0
"""Two repetitions may say next to nothing: their draws end here, far beyond any rate."""


@dataclass(frozen=True)
class Used:
    """How much of what a part allows was used: a share, 1 being all of it."""

    part: str
    share: Interval


@dataclass(frozen=True)
class Judged:
    """What bounds a phase: `bound` in `bound_share` of the draws, the parts by their use.

    `of_peak` is the rate as a share of the limit; `unknown` are the parts that nothing is known of,
    each of which may be what `software` stands for.
    """

    achieved: Achieved
    rate: Interval
    of_peak: Interval
    bound: Bound
    bound_share: float
    used: tuple[Used, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Predicted:
    """An estimate of what a purchase comes to; without one it is the cluster as it is.

    Rates are those with as many clients as it takes. `limit` is what the peak rule allows then,
    `linear` the baseline beside the model: every node as it is now, whatever is bought for it.
    `gain` is the rate over that of the cluster as it is, `gain_per_eur` and `gain_per_w` what of it
    each euro or watt buys, `rate_per_w` the rate over all power after it; None if price or power
    is not known. `first_by_eur` and `first_by_w` are shares of draws in which it gains the most.
    """

    purchase: Purchase | None
    rate: Interval
    limit: Interval
    linear: Interval
    gain: Interval
    gain_per_eur: Interval | None
    gain_per_w: Interval | None
    rate_per_w: Interval | None
    first_by_eur: float | None = None
    first_by_w: float | None = None


@dataclass(frozen=True)
class Nodes:
    """How many nodes a rate takes: as they are, and were all at their peak; there are `now`.

    `clients` is how many have links for it; `power_w` is of all nodes as they are,
    `joules_per_unit` of a MiB or an I/O, `price_eur` of the nodes that are missing.
    """

    wanted: float
    now: int
    nodes: Interval
    at_peak: Interval
    clients: int
    power_w: Interval | None
    joules_per_unit: Interval | None
    price_eur: Interval | None


@dataclass(frozen=True)
class Advice:
    """What is told of one phase of a system."""

    judged: Judged
    predicted: tuple[Predicted, ...]
    nodes: Nodes | None


def advise(
    cluster: Cluster,
    achieved: Achieved,
    purchases: Sequence[Purchase] = (),
    wanted: float | None = None,
    seed: int = 1,
) -> Advice:
    """What bounds a phase, what each purchase comes to, and the nodes for a rate in its unit."""
    servers = cluster.servers(achieved.quantity, achieved.stored_share)
    parts: dict[str, Draws] = {LABELS[kind][0]: value for kind, value in servers.items()}
    if achieved.rates:
        parts |= cluster.clients(achieved)
    rate, power_w = _runs(achieved, least(servers), cluster.draws, seed)
    processors = None
    if achieved.server_cores and achieved.cores:
        processors = rate * achieved.cores / achieved.server_cores
        parts["servers' processors"] = processors
    judged = _judge(achieved, rate, parts)
    limit = least(parts)
    had = _to_be_had(rate / limit, np.random.default_rng((seed, *achieved.name.encode(), 1)))
    rest = np.maximum(1 / rate - 1 / (had * limit), 0.0)
    # A cache may help beyond the peak; what it gives is taken to stay as it is.
    beyond = np.maximum(rate / limit, 1.0)
    model = _Model(cluster, achieved, power_w, processors, had, rest, beyond)
    return Advice(
        judged,
        tuple(_predictions(model, purchases)),
        None if wanted is None else _nodes(model, wanted, purchases),
    )


@dataclass(frozen=True)
class _Model:
    """What is drawn of a phase.

    Power, what the servers' processors allow (None if that is not known), which share of a limit
    can be had, the rest that it does not explain, and what a cache gives beyond it.
    """

    cluster: Cluster
    achieved: Achieved
    power_w: Draws | None
    processors: Draws | None
    had: Draws
    rest: Draws
    beyond: Draws

    def limit(
        self, factors: Mapping[tuple[str, Kind], float] | None = None, growth: float = 1.0
    ) -> Draws:
        """What the servers allow, with as many clients as it takes, and so many times the nodes."""
        achieved = self.achieved
        found: dict[str, Draws] = dict(
            self.cluster.servers(achieved.quantity, achieved.stored_share, factors).items()
        )
        if self.processors is not None:
            # No purchase makes them faster; nodes bring theirs.
            found["servers' processors"] = growth * self.processors
        return least(found)

    def after(self, limit: Draws, growth: float = 1.0) -> Draws:
        """The rate under another limit, of a cluster of so many times the nodes."""
        found: Draws = self.beyond / (1 / (self.had * limit) + self.rest / growth)
        return found


def _to_be_had(reached: Draws, generator: np.random.Generator) -> Draws:
    """Which share of a limit can be had at all, where so much of it was reached."""
    least_share = np.clip(reached, NEAR, 1.0)
    found: Draws = least_share + (1 - least_share) * generator.random(len(reached))
    return found


def _runs(achieved: Achieved, peak: Draws, draws: int, seed: int) -> tuple[Draws, Draws | None]:
    """Drawn rates and powers of a run; its peak where it has no rates."""
    if not achieved.rates:
        return peak, None
    with_power = bool(achieved.powers_w)
    columns = [achieved.rates, achieved.powers_w] if with_power else [achieved.rates]
    logs = np.log(np.array(columns, dtype=np.float64)).T
    name = list(achieved.name.encode())
    drawn = np.exp(of_mean(logs, draws, np.random.default_rng((seed, *name))))
    return drawn[:, 0], drawn[:, 1] if with_power else None


def of_mean(values: Draws, draws: int, generator: np.random.Generator) -> Draws:
    """Draws of the mean of rows that belong together, as their repetitions tell it.

    Each column by itself is mean + t s / sqrt(n), t of Student's with n - 1 degrees of freedom;
    columns are drawn with the covariance of the rows. A single row is taken as exact.
    """
    count = len(values)
    mean = values.mean(axis=0)
    if count < 2:
        return np.tile(mean, (draws, 1))
    normal = generator.standard_normal((draws, count))
    chi = generator.chisquare(count - 1, (draws, 1)) / (count - 1)
    shift = normal @ (values - mean) / math.sqrt(count * (count - 1)) / np.sqrt(chi)
    found: Draws = mean + np.clip(shift, -_EXPONENT_MAX, _EXPONENT_MAX)
    return found


def _judge(achieved: Achieved, rate: Draws, parts: Mapping[str, Draws]) -> Judged:
    used = {name: rate / allowed for name, allowed in parts.items()}
    shares = np.array(list(used.values()))
    names = list(used)
    bounds = [BOUND_OF[names[at]] for at in shares.argmax(axis=0)]
    near = shares.max(axis=0) >= NEAR
    told = [bound if is_near else "software" for bound, is_near in zip(bounds, near, strict=True)]
    counts = {bound: told.count(bound) for bound in dict.fromkeys(told)}
    bound: Bound = max(counts, key=lambda one: counts[one])
    ordered = sorted(used, key=lambda name: -float(np.median(used[name])))
    unknown = [
        name
        for name in (*(label for label, _ in LABELS.values()), "servers' processors")
        if name not in used and (achieved.rates or name == LABELS["disk"][0])
    ]
    return Judged(
        achieved,
        interval(rate),
        interval(shares.max(axis=0)),
        bound,
        counts[bound] / len(told),
        tuple(Used(name, interval(used[name])) for name in ordered),
        tuple(unknown),
    )


def _predictions(model: _Model, purchases: Sequence[Purchase]) -> list[Predicted]:
    """The cluster as it is, and what each purchase that touches the quantity comes to."""
    known = set(model.cluster.sums(model.achieved.quantity))
    of_it = [one for one in purchases if known & set(one.factors)]
    now = model.after(model.limit())
    nodes = model.cluster.nodes(model.achieved.quantity)
    growths = [1 + one.units / nodes if one.more_nodes else 1.0 for one in of_it]
    rates = [
        model.after(model.limit(one.factors, growth), growth)
        for one, growth in zip(of_it, growths, strict=True)
    ]
    # What floating point leaves of nothing is nothing.
    gains = [np.where(rate - now > 1e-9 * now, rate - now, 0.0) for rate in rates]
    by_eur = _first([_per(gain, one.price_eur) for gain, one in zip(gains, of_it, strict=True)])
    by_w = _first([_per(gain, one.power_w) for gain, one in zip(gains, of_it, strict=True)])
    found = [_as_it_is(model, now)]
    for at, (one, rate, gain) in enumerate(zip(of_it, rates, gains, strict=True)):
        linear = now * growths[at]
        power_w = (
            None if model.power_w is None or one.power_w is None else model.power_w + one.power_w
        )
        eur, watt = _per(gain, one.price_eur), _per(gain, one.power_w)
        found.append(
            Predicted(
                one,
                interval(rate),
                interval(model.limit(one.factors, growths[at])),
                interval(linear),
                interval(gain),
                None if eur is None else interval(eur),
                None if watt is None else interval(watt),
                None if power_w is None else interval(rate / power_w),
                by_eur[at],
                by_w[at],
            )
        )
    return found


def _as_it_is(model: _Model, now: Draws) -> Predicted:
    per_w = None if model.power_w is None else interval(now / model.power_w)
    nothing = Interval(0.0, 0.0, 0.0, 0.95)
    parts = (interval(now), interval(model.limit()), interval(now), nothing)
    return Predicted(None, *parts, None, None, per_w)


def _per(gain: Draws, cost: float | None) -> Draws | None:
    """A gain over what it costs; None if that is not known, or nothing."""
    return gain / cost if cost else None


def _first(gains: Sequence[Draws | None]) -> list[float | None]:
    """In which share of draws each is the greatest of all, and above nothing."""
    known = [at for at, gain in enumerate(gains) if gain is not None]
    found: list[float | None] = [None] * len(gains)
    if not known:
        return found
    values = np.array([gains[at] for at in known])
    best = values.argmax(axis=0)
    above = values.max(axis=0) > 0
    for place, at in enumerate(known):
        found[at] = float(np.mean(above & (best == place)))
    return found


def _nodes(model: _Model, wanted: float, purchases: Sequence[Purchase]) -> Nodes:
    """Nodes for a rate: all of them alike, as they are on average now."""
    cluster, achieved = model.cluster, model.achieved
    now = cluster.nodes(achieved.quantity)
    limit = model.limit()
    wanted_nodes = _whole(now * wanted / model.after(limit))
    node = next((one for one in purchases if one.more_nodes and one.units), None)
    power_w = price = None
    if model.power_w is not None:
        power_w = model.power_w * wanted_nodes / now
        if node is not None and node.power_w is not None:
            each_w = node.power_w / node.units
            # Nodes that are not needed save their own power, not that of those that are bought.
            fewer_w = np.minimum(wanted_nodes / now, 1.0) * model.power_w
            power_w = fewer_w + np.maximum(wanted_nodes - now, 0) * each_w
    if node is not None and node.price_eur is not None:
        price = np.maximum(wanted_nodes - now, 0) * node.price_eur / node.units
    link = cluster.link(achieved)
    clients = 0 if link is None else math.ceil(wanted / float(np.median(link)) - 1e-9)
    return Nodes(
        wanted,
        now,
        interval(wanted_nodes),
        interval(_whole(now * wanted / limit)),
        clients,
        None if power_w is None else interval(power_w),
        None if power_w is None else interval(power_w / wanted),
        None if price is None else interval(price),
    )


def _whole(nodes: Draws) -> Draws:
    """Whole nodes; a hair above a whole number is that number."""
    return np.ceil(nodes - 1e-9)
