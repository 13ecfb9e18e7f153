"""Running of a study into its result folder, from the start or from where it stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from wattio.executors.interrupts import undisturbed
from wattio.executors.threads import Executor, Finished
from wattio.files import document
from wattio.kinds.simulation import metrics, plan, schema, trace_set
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.plan import SimulationPlan
from wattio.kinds.simulation.twins import Twins
from wattio.results.plan import Iteration
from wattio.results.runs import WHOLE, Recorded
from wattio.simulator.native import Simulator
from wattio.simulator.simulation import Request


def prepare(
    source: document.Document, simulator: Simulator, traces: Path | None = None
) -> SimulationPlan:
    """Plan the simulation study in a document; it plays a folder of traces, too. InputError."""
    if traces is None:
        return plan.make(source, schema.from_document(source), simulator)
    with_them = trace_set.with_traces(source, traces)
    made = plan.make(with_them, schema.from_document(with_them), simulator)
    return replace(made, traces=str(traces.resolve()))


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
    is called for each iteration once it is kept. Raises ResultError if another process is at work
    in the folder.
    """
    with folder.alone(), contextlib.closing(folder.catalog()) as catalog:
        twins = Twins(folder, catalog, simulator)

        def keep(iteration: Iteration[Request], finished: Finished) -> None:
            outcome = finished.outcome
            with undisturbed():
                folder.write_outcome(iteration.identity, outcome)
                found = metrics.of_outcome(outcome)
                head = (iteration.identity, iteration.run, iteration.seed, iteration.repetition)
                judged = tuple(metrics.verdicts(outcome))
                recorded = Recorded(*head, iteration.request.seed, judged, {WHOLE: found})
                catalog.add(recorded, finished.phases, "simulation")
                twins.add(recorded)
            ended(iteration)

        twins.settle()
        # Another process may have run some since they were counted.
        left = [item for item in iterations if not twins.knows(item.identity)]
        executor.run(left, keep)
