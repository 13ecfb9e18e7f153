"""Simulations on a cluster of dask.distributed: an executor like `execution.SimulationExecutor`.

The engine is `local` (a cluster of processes on this machine, for the time of the run) or the
address of a scheduler, as in `tcp://scheduler:8786`. Its workers need wattio of the same version,
and the study's files under the same paths. Results do not depend on the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from wattio.errors import HostError, InputError, needed
from wattio.executors.threads import Finished, OnDone, Watch
from wattio.results.plan import Iteration
from wattio.results.runs import Phase
from wattio.simulator.native import NativeSimulator
from wattio.simulator.policies import BOUND_BY

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
WAIT_S = 30.0
"""How long a scheduler may take to answer."""

_NATIVE = NativeSimulator()


class ClusterExecutor:
    """Runs simulations on the workers of a cluster."""

    def __init__(
        self,
        engine: str,
        jobs: int,
        watch: Watch,
        simulate: Callable[[Any], Any] = _NATIVE.simulate,
    ) -> None:
        """`jobs` is the number of processes of a local cluster. Raises InputError.

        `simulate` is what a worker does with an iteration's request.
        """
        if engine != LOCAL and "://" not in engine:
            raise InputError(
                f'engine "{engine}": must be "{LOCAL}" or a scheduler, as in tcp://host:8786'
            )
        self._engine = engine
        self._jobs = jobs
        self._watch = watch
        self._simulate = simulate

    def run(self, iterations: Sequence[Iteration[Any]], on_done: OnDone) -> None:
        """Run all of them. On any error, and on Ctrl-C, the others are given up first.

        Raises HostError where the cluster does not answer or runs another version.
        """
        from distributed import as_completed

        with self._connected() as client:
            # The oracle simulates many candidates: begun first, it does not hold up the end.
            order = sorted(iterations, key=lambda item: item.run.policy != BOUND_BY)
            waiting = {
                client.submit(
                    _simulate, self._simulate, item.request, key=item.identity, pure=False
                ): item
                for item in order
            }
            try:
                for future in as_completed(list(waiting)):
                    iteration = waiting[future]
                    self._watch(iteration, 1.0)
                    on_done(iteration, future.result())
                    future.release()
            except BaseException:
                client.cancel(list(waiting), force=True)
                raise

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        try:
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise HostError(f"a cluster as the engine {needed('cluster')}") from error
        if self._engine == LOCAL:
            with (
                LocalCluster(
                    n_workers=self._jobs, threads_per_worker=1, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                yield client
            return
        try:
            client = Client(self._engine, timeout=WAIT_S)
        except (OSError, ValueError) as error:
            raise HostError(f"{self._engine}: no scheduler answered: {error}") from error
        with client:
            _same_version(client, self._engine)
            yield client


def _same_version(client: Client, engine: str) -> None:
    """Refuse workers whose results could differ from ours."""
    client.wait_for_workers(1, timeout=WAIT_S)
    found: dict[str, Any] = client.run(version, "wattio")
    for worker, other in found.items():
        if other != version("wattio"):
            raise HostError(
                f"{engine}: worker {worker} has wattio {other}, this is {version('wattio')}"
            )


def _simulate(simulate: Callable[[Any], Any], request: Any) -> Finished:  # noqa: ANN401
    """What a worker does."""
    utc_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
    outcome = simulate(request)
    phase = Phase("simulate", utc_ns, time.time_ns(), monotonic_ns, time.monotonic_ns())
    return Finished(outcome, (phase,))
