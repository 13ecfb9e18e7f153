"""Executors: what runs the iterations of a plan.

An executor is handed iterations and calls back, in the caller's thread, as each one ends.
Simulations run in parallel. Measurements must not disturb each other: an executor for them runs
one at a time behind the same interface.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from wattio.errors import InputError
from wattio.results.plan import Iteration
from wattio.results.runs import Phase
from wattio.simulator.policies import BOUND_BY

_log = logging.getLogger(__name__)

Watch = Callable[[Iteration[Any], float], None]
"""Told the share of an iteration that is done, from whatever thread runs it."""


@dataclass(frozen=True)
class Finished:
    """An iteration that has ended: what it gave, and when it ran on this machine's clocks."""

    outcome: Any
    phases: tuple[Phase, ...]


OnDone = Callable[[Any, Finished], None]


class Simulating(Protocol):
    """What runs the request of an iteration."""

    def simulate(
        self,
        request: Any,  # noqa: ANN401 (of the kind that the iterations hold)
        *,
        progress: Callable[[float], None] | None = None,
        cancelled: threading.Event | None = None,
    ) -> Any:  # noqa: ANN401
        """Run it; what it gave."""


class Executor(Protocol):
    """Runs iterations; raises what an iteration raises, after it has stopped the others."""

    def run(self, iterations: Sequence[Iteration[Any]], on_done: OnDone) -> None:
        """Run all of them and call `on_done` for each, in this thread, as it ends."""


class SimulationExecutor:
    """Runs simulations on a number of threads; the native simulator releases the lock."""

    def __init__(self, simulator: Simulating, jobs: int, watch: Watch) -> None:
        """`jobs` simulations run at a time; `watch` is told how each one gets on."""
        self._simulator = simulator
        self._jobs = jobs
        self._watch = watch
        self._cancelled = threading.Event()

    def run(self, iterations: Sequence[Iteration[Any]], on_done: OnDone) -> None:
        """Run all of them. On any error, and on Ctrl-C, the others are stopped first."""
        # The oracle simulates many candidates: begun first, it does not hold up the end.
        waiting = iter(sorted(iterations, key=lambda item: item.run.policy != BOUND_BY))
        running: dict[Future[Finished], Iteration[Any]] = {}
        pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="simulation")
        try:
            self._fill(pool, waiting, running)
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    iteration = running.pop(future)
                    on_done(iteration, future.result())
                self._fill(pool, waiting, running)
        except BaseException:
            self._cancelled.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _fill(
        self,
        pool: ThreadPoolExecutor,
        waiting: Iterator[Iteration[Any]],
        running: dict[Future[Finished], Iteration[Any]],
    ) -> None:
        """Keep every thread busy; no more, as each result that waits holds its windows."""
        while len(running) < self._jobs:
            iteration = next(waiting, None)
            if iteration is None:
                return
            running[pool.submit(self._simulate, iteration)] = iteration

    def _simulate(self, iteration: Iteration[Any]) -> Finished:
        utc_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
        try:
            outcome = self._simulator.simulate(
                iteration.request,
                progress=lambda share: self._watch(iteration, share),
                cancelled=self._cancelled,
            )
        except InputError as error:
            raise InputError(f"{iteration.name}: {error}") from None
        _log.debug("%s: %.2f s", iteration.name, (time.monotonic_ns() - monotonic_ns) / 1e9)
        phase = Phase("simulate", utc_ns, time.time_ns(), monotonic_ns, time.monotonic_ns())
        return Finished(outcome, (phase,))
