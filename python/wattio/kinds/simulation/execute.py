"""Running of a study into its result folder, from the start or from where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wattio.errors import InputError
from wattio.executors.interrupts import undisturbed
from wattio.executors.threads import Executor, Finished
from wattio.files import document
from wattio.kinds.simulation import metrics, plan, schema
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.plan import SimulationPlan
from wattio.results.plan import Iteration
from wattio.results.runs import WHOLE, Metrics, Recorded
from wattio.simulator.native import Simulator
from wattio.simulator.policies import BOUND_BY, REFERENCE
from wattio.simulator.simulation import Request


def prepare(source: document.Document, simulator: Simulator) -> SimulationPlan:
    """Plan the simulation study in a document. Raises InputError."""
    return plan.make(source, schema.from_document(source), simulator)


def resume(folder: SimulationFolder, simulator: Simulator) -> SimulationPlan:
    """Plan a stopped study again. Raises ResultError if it is no longer the same study."""
    again = prepare(folder.unchanged_source(), simulator)
    folder.check_again(again)
    return again


def execute(
    iterations: Sequence[Iteration[Request]],
    folder: SimulationFolder,
    executor: Executor,
    simulator: Simulator,
    ended: Callable[[Iteration[Request]], None] = lambda _: None,
) -> None:
    """Run iterations, keep each as it ends, and relate them to their native twins.

    However it ends, what is done is kept and the folder can be reported on and resumed. `ended`
    is called for each iteration once it is kept.
    """
    catalog = folder.catalog()

    def keep(iteration: Iteration[Request], finished: Finished) -> None:
        outcome = finished.outcome
        with undisturbed():
            folder.write_outcome(iteration.identity, outcome)
            found = metrics.of_outcome(outcome)
            head = (iteration.identity, iteration.run, iteration.seed, iteration.repetition)
            judged = tuple(metrics.verdicts(outcome))
            recorded = Recorded(*head, iteration.request.seed, judged, {WHOLE: found})
            catalog.add(recorded, finished.phases, "simulation")
        ended(iteration)

    try:
        executor.run(iterations, keep)
    finally:
        try:
            with undisturbed():
                for identity, found in relations(folder, simulator).items():
                    catalog.put_metrics(identity, found)
        finally:
            catalog.close()


def relations(folder: SimulationFolder, simulator: Simulator) -> dict[str, Metrics]:
    """Metrics of every iteration against its native twin and the oracle, from the files kept."""
    found: dict[str, Metrics] = {}
    groups: dict[tuple[str, int, int], list[Recorded]] = {}
    for item in folder.iterations():
        groups.setdefault((item.run.subject, item.seed, item.repetition), []).append(item)
    for group in groups.values():
        native = next((item for item in group if item.run.policy == REFERENCE), None)
        if native is None:
            continue
        twin = folder.read_outcome(native)
        # Shares are of what is possible under the same bound on the same statistic, the mean.
        oracle_w = {
            item.run.plf: _power_w(item)
            for item in group
            if item.run.policy == BOUND_BY and item.run.settings.get("statistic", "mean") == "mean"
        }
        for item in group:
            outcome = twin if item is native else folder.read_outcome(item)
            relation = simulator.relate(outcome, twin, item.run.plf)
            powers = (_power_w(item), _power_w(native), oracle_w.get(item.run.plf))
            found[item.identity] = metrics.of_relation(relation) | metrics.of_powers(*powers)
    return found


def _power_w(item: Recorded) -> float:
    try:
        return item.metrics["power_w_mean"][0]
    except KeyError:
        raise InputError(f"{item.run.name}: gave no mean power") from None
