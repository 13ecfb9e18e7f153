"""Running of a study into its result folder, from the start or from where it stopped."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Container, Iterable, Iterator

from wattio.errors import InputError, ResultError
from wattio.executors.threads import Executor, Finished
from wattio.files import document
from wattio.kinds.simulation import metrics, plan, schema
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.plan import BOUND_BY, REFERENCE, Iteration, Plan
from wattio.results.catalog import Catalog, Metrics, Recorded
from wattio.simulator.native import Simulator
from wattio.simulator.simulation import Outcome


def prepare(source: document.Document, simulator: Simulator) -> Plan:
    """Plan the simulation study in a document. Raises InputError."""
    return plan.make(source, schema.from_document(source), simulator)


def resume(folder: SimulationFolder, simulator: Simulator) -> Plan:
    """Plan a stopped study again. Raises ResultError where it is no longer the same study."""
    source = folder.unchanged_source()
    again = prepare(source, simulator)
    if [iteration.identity for iteration in again.iterations] != folder.machine()["plan"]:
        raise ResultError(
            f"{folder.path}: a server, trace, profile or wattio itself has changed since it was"
            " begun; its iterations would not belong together; run the study anew"
        )
    return again


def remaining(plan_: Plan, folder: SimulationFolder) -> list[Iteration]:
    """The iterations of a plan that the folder does not hold yet."""
    done = {item.identity for item in folder.iterations()}
    return [iteration for iteration in plan_.iterations if iteration.identity not in done]


def execute(
    iterations: list[Iteration],
    folder: SimulationFolder,
    executor: Executor,
    simulator: Simulator,
    ended: Callable[[Iteration], None] = lambda _: None,
) -> None:
    """Run iterations, keep each as it ends, and relate them to their native twins.

    However it ends, what is done is kept and the folder can be reported on and resumed. `ended`
    is called for each iteration once it is kept. Raises ResultError where another process is at
    work in the folder.
    """
    with folder.alone(), contextlib.closing(folder.catalog()) as catalog:
        twins = _Twins(folder, catalog, simulator)

        def keep(iteration: Iteration, finished: Finished) -> None:
            outcome = finished.outcome
            with undisturbed():
                folder.write_outcome(iteration.identity, outcome)
                found = metrics.of_outcome(outcome)
                head = (iteration.identity, iteration.run, iteration.seed, iteration.repetition)
                judged = tuple(metrics.verdicts(outcome))
                recorded = Recorded(*head, iteration.request.seed, judged, found)
                catalog.add(recorded, finished.phases, "simulation")
                twins.add(recorded)
            ended(iteration)

        twins.settle()
        # Another process may have run some since they were counted.
        left = [item for item in iterations if not twins.knows(item.identity)]
        executor.run(left, keep)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold Ctrl-C back until what is being written is whole; then raise KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


class _Twins:
    """Relates iterations to their native twins as they are kept, so that a stop finds it done."""

    def __init__(self, folder: SimulationFolder, catalog: Catalog, simulator: Simulator) -> None:
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
        group = self._groups.setdefault(_twins_of(recorded), [])
        group.append(recorded)
        self._metrics[recorded.identity] = recorded.metrics
        self._relate(group)

    def settle(self) -> None:
        """Relate what a process that was killed has left."""
        for group in self._groups.values():
            self._relate(group)

    def _relate(self, group: list[Recorded]) -> None:
        done = {item.identity for item in group if "saving_share" in self._metrics[item.identity]}
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


def _twins_of(item: Recorded) -> tuple[str, int, int]:
    """What iterations have in common that are compared with each other."""
    return item.run.load, item.seed, item.repetition


def _groups(items: Iterable[Recorded]) -> dict[tuple[str, int, int], list[Recorded]]:
    groups: dict[tuple[str, int, int], list[Recorded]] = {}
    for item in items:
        groups.setdefault(_twins_of(item), []).append(item)
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
    # Shares are of what is possible under the same bound on the same statistic, the mean.
    oracle_w = {
        item.run.plf: _power_w(item)
        for item in group
        if item.run.policy == BOUND_BY and item.run.settings.get("statistic", "mean") == "mean"
    }
    found: dict[str, Metrics] = {}
    twin: Outcome | None = None
    for item in group:
        powers = (_power_w(item), _power_w(native), oracle_w.get(item.run.plf))
        found[item.identity] = metrics.of_powers(*powers)
        if item.identity not in done:
            twin = twin or folder.read_outcome(native)
            outcome = twin if item is native else folder.read_outcome(item)
            relation = simulator.relate(outcome, twin, item.run.plf)
            found[item.identity] |= metrics.of_relation(relation)
    return found


def _power_w(item: Recorded) -> float:
    try:
        return item.metrics["power_w_mean"][0]
    except KeyError:
        raise InputError(f"{item.run.name}: gave no mean power") from None
