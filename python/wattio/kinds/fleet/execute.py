"""Running of a fleet into its result folder, from the start or from where it stopped."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wattio import _core
from wattio.errors import Cancelled
from wattio.executors.interrupts import undisturbed
from wattio.executors.threads import Executor, Finished
from wattio.kinds.fleet import plan as planning
from wattio.kinds.fleet import summary
from wattio.kinds.fleet.folder import FleetFolder, load_json
from wattio.kinds.fleet.plan import Batch, FleetPlan, FleetRequest
from wattio.results.runs import WHOLE, Recorded, Verdict
from wattio.simulator.bounds import Bound, takes_bounds


class FleetSimulator:
    """What executors run batches with."""

    def simulate(
        self,
        request: Any,  # noqa: ANN401 (executors know requests of simulations)
        *,
        progress: Callable[[float], None] | None = None,
        cancelled: threading.Event | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one batch; its totals. Raises InputError, and Cancelled when it is set."""
        return simulate(request, progress=progress, cancelled=cancelled)


def simulate(
    request: FleetRequest,
    *,
    progress: Callable[[float], None] | None = None,
    cancelled: threading.Event | None = None,
    threads: int | None = 1,
) -> dict[str, Any]:
    """Run a batch; `{"members": [...]}` as `_core.run_fleet` has it, without bounds by the law."""

    def watch(share: float) -> bool:
        if progress is not None:
            progress(share)
        return cancelled is None or not cancelled.is_set()

    answer = _core.run_fleet(json.dumps(specification(request, threads)), watch)
    if answer is None:
        raise Cancelled("the fleet was stopped")
    return load_json(answer)


def specification(request: FleetRequest, threads: int | None = 1) -> dict[str, Any]:
    """A batch as the native module takes it."""
    bounded = takes_bounds(request.policy) or Bound.parse(request.bound).statistic == "p99"
    return {
        "servers": dict(request.servers),
        "policy": {"name": request.policy, "settings": dict(request.settings)},
        "bounds": [request.bound] if bounded else [],
        "noise": request.noise,
        "skip": True,
        "threads": threads,
        "members": [member.batch_entry(request.span_s) for member in request.members],
    }


def resume(folder: FleetFolder) -> FleetPlan:
    """Plan a stopped fleet again. Raises ResultError if it is no longer the same."""
    again = planning.make(folder.unchanged_source(), folder.inputs()["scale"])
    folder.check_again(again)
    return again


def execute(
    batches: Sequence[Batch],
    folder: FleetFolder,
    executor: Executor,
    ended: Callable[[Batch], None] = lambda _: None,
) -> None:
    """Run batches, keep each as it ends, then add them up. What is done is kept however it ends."""
    with folder.alone():
        with contextlib.closing(folder.catalog()) as catalog:
            done = catalog.done()  # Another process may have run some since they were counted.

            def keep(batch: Batch, finished: Finished) -> None:
                answer: dict[str, Any] = finished.outcome
                with undisturbed():
                    folder.write_batch(batch, answer)
                    head = (batch.identity, batch.run, batch.seed, batch.repetition, batch.seed)
                    judged = verdicts(answer["members"])
                    recorded = Recorded(*head, judged, {WHOLE: of_batch(answer["members"])})
                    catalog.add(recorded, finished.phases, "batch")
                ended(batch)

            executor.run([batch for batch in batches if batch.identity not in done], keep)
        if folder.complete():
            with undisturbed():
                summary.write(folder)


def of_batch(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, str]]:
    """Metrics of a batch: sums over its servers."""
    units = {"power_w_mean": "W", "energy_j": "J", "ios": "1", "windows": "1"}
    units["windows_skipped"] = "1"
    sums = {name: sum(float(row[name]) for row in rows) for name in units}
    found = {name: (sums[name], unit) for name, unit in units.items() if name != "power_w_mean"}
    return found | {"servers": (len(rows), "1"), "power_w_sum": (sums["power_w_mean"], "W")}


def verdicts(rows: Sequence[Mapping[str, Any]]) -> tuple[Verdict, ...]:
    """What speaks against a batch: loads that no setting could take."""
    waiting = sum(1 for row in rows if row["ios_waiting_end"] > 0.01 * max(row["ios"], 1.0))
    if waiting:
        text = f"OVERLOADED: {waiting} servers end with more than 1 % of their requests unanswered"
        return (Verdict("WARN", text),)
    return (Verdict("VALID", ""),)
