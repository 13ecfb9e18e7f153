"""Iterations against their native twins: ratios, bounds, and the share of what is possible."""

from __future__ import annotations

from collections.abc import Container, Iterable

from wattio.errors import InputError
from wattio.kinds.simulation import metrics, promises
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.results.catalog import Catalog
from wattio.results.runs import Metrics, Recorded
from wattio.simulator.bounds import judge
from wattio.simulator.native import Simulator
from wattio.simulator.policies import BOUND_BY, REFERENCE
from wattio.simulator.simulation import Outcome

_RELATED = "saving_share"
"""A metric that every iteration has that was related to its twin."""


class Twins:
    """Relates iterations to their native twins as they are kept, so that a stop finds it done."""

    def __init__(self, folder: SimulationFolder, catalog: Catalog, simulator: Simulator) -> None:
        """Of what the folder holds, and of what is added."""
        self._folder, self._catalog, self._simulator = folder, catalog, simulator
        self._groups = _groups(folder.iterations())
        self._metrics = {
            item.identity: item.metrics for group in self._groups.values() for item in group
        }

    def knows(self, identity: str) -> bool:
        """Whether an iteration is kept."""
        return identity in self._metrics

    def add(self, recorded: Recorded) -> None:
        """Relate an iteration that was kept just now, and those that waited for it."""
        group = self._groups.setdefault(_key(recorded), [])
        group.append(recorded)
        self._metrics[recorded.identity] = recorded.metrics
        self._relate(group)

    def settle(self) -> None:
        """Relate what a process that was killed has left."""
        for group in self._groups.values():
            self._relate(group)

    def _relate(self, group: list[Recorded]) -> None:
        done = {item.identity for item in group if _RELATED in self._metrics[item.identity]}
        for identity, found in _relations(self._folder, self._simulator, group, done).items():
            if not found.items() <= self._metrics[identity].items():
                self._catalog.put_metrics(identity, found)
                self._metrics[identity] = self._metrics[identity] | found


def relations(folder: SimulationFolder, simulator: Simulator) -> dict[str, Metrics]:
    """Metrics of every iteration against its native twin and the oracle, from the files kept."""
    found: dict[str, Metrics] = {}
    for group in _groups(folder.iterations()).values():
        found |= _relations(folder, simulator, group)
    return found


def _key(item: Recorded) -> tuple[str, int, int]:
    """What iterations have in common that are compared with each other."""
    return item.run.subject, item.seed, item.repetition


def _groups(items: Iterable[Recorded]) -> dict[tuple[str, int, int], list[Recorded]]:
    groups: dict[tuple[str, int, int], list[Recorded]] = {}
    for item in items:
        groups.setdefault(_key(item), []).append(item)
    return groups


def _relations(
    folder: SimulationFolder,
    simulator: Simulator,
    group: list[Recorded],
    done: Container[str] = (),
) -> dict[str, Metrics]:
    """Metrics of a group; of those that are done, only the shares, which need no files."""
    native = next((item for item in group if item.run.policy == REFERENCE), None)
    if native is None:
        return {}
    # Shares are of what is possible within the same bounds.
    oracle_w = {
        promises.told(item.run): _power_w(item) for item in group if item.run.policy == BOUND_BY
    }
    found: dict[str, Metrics] = {}
    twin: Outcome | None = None
    for item in group:
        held_to = promises.told(item.run)
        powers = (_power_w(item), _power_w(native), oracle_w.get(held_to))
        found[item.identity] = metrics.of_powers(*powers)
        if item.identity not in done:
            twin = twin or folder.read_outcome(native)
            outcome = twin if item is native else folder.read_outcome(item)
            found[item.identity] |= _relation(simulator, item, outcome, twin)
            tails = metrics.of_outcome(outcome), metrics.of_outcome(twin)
            found[item.identity] |= metrics.of_tails(*tails)
    return found


def _relation(simulator: Simulator, item: Recorded, outcome: Outcome, twin: Outcome) -> Metrics:
    """Ratios of a run to its twin, and how it kept what it is held to."""
    given = promises.are_given(item.run)
    relation = simulator.relate(outcome, twin, None if given else item.run.plf)
    if not given:
        return metrics.of_relation(relation) | metrics.of_plf(relation)
    judged = [judge(bound, outcome, twin) for bound in promises.of(item.run)]
    return metrics.of_relation(relation) | metrics.of_bounds(judged)


def _power_w(item: Recorded) -> float:
    try:
        return item.metrics["power_w_mean"][0]
    except KeyError:
        raise InputError(f"{item.run.name}: gave no mean power") from None
