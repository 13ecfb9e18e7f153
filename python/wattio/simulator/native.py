"""What a study needs of the simulator, and the simulator that gives it."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from wattio import _core
from wattio.errors import InputError, unusable
from wattio.files.document import nearest
from wattio.simulator import oracle, simulation
from wattio.simulator.policies import BOUND_BY
from wattio.simulator.simulation import Outcome, Progress, Request, Setting


class Simulator(Protocol):
    """The seam between studies and what runs them; tests put a made-up one here."""

    def simulate(
        self,
        request: Request,
        *,
        progress: Progress | None = None,
        cancelled: threading.Event | None = None,
    ) -> Outcome:
        """Run one simulation."""

    def relate(self, outcome: Outcome, native: Outcome, plf: float | None) -> dict[str, Any]:
        """Compare a run with its native twin."""

    def server(self, name: str, power_model: str | None = None) -> dict[str, Any]:
        """A server description, resolved, with the core power of a model's file."""

    def settings(self, policy: str, given: Mapping[str, Setting]) -> dict[str, Setting]:
        """All settings of a policy, defaults filled in."""


def side_by_side(
    requests: Sequence[Request], progress: Callable[[int], Progress | None] = lambda _: None
) -> list[Outcome]:
    """Simulate requests at once; Ctrl-C stops all of them. `progress(n)` watches the nth."""
    simulator, cancelled = NativeSimulator(), threading.Event()
    with ThreadPoolExecutor(len(requests)) as pool:
        futures = [
            pool.submit(simulator.simulate, each, progress=progress(at), cancelled=cancelled)
            for at, each in enumerate(requests)
        ]
        try:
            return [future.result() for future in futures]
        except BaseException:
            cancelled.set()
            raise


class NativeSimulator:
    """The simulator that wattio ships."""

    def simulate(
        self,
        request: Request,
        *,
        progress: Progress | None = None,
        cancelled: threading.Event | None = None,
    ) -> Outcome:
        """Run one simulation. Raises InputError for bad input, Cancelled when it is set.

        The commands `simulate` and `oracle`, and studies of kind "simulation", all go through here.
        """
        if request.policy == BOUND_BY:
            return oracle.search(request, progress=progress, cancelled=cancelled)
        run = _core.Simulation(json.dumps(simulation.specification(request, cancelled)))
        return simulation.play(run, request, progress=progress, cancelled=cancelled)

    def relate(self, outcome: Outcome, native: Outcome, plf: float | None) -> dict[str, Any]:
        """The keys `relative_to_native` and `bound` of a run."""
        return simulation.relate(outcome, native, plf)

    def server(self, name: str, power_model: str | None = None) -> dict[str, Any]:
        """The resolved description of a built-in server or of a file. Raises InputError."""
        text = simulation.described(name, power_model)
        description: dict[str, Any] = json.loads(_core.check_server(text))
        return description

    def settings(self, policy: str, given: Mapping[str, Setting]) -> dict[str, Setting]:
        """All settings of a policy, defaults filled in. Raises InputError."""
        if policy == BOUND_BY:
            return oracle.check(dict(given))
        known = sorted([*json.loads(_core.policies()), BOUND_BY])
        if policy not in known:
            raise InputError(f'unknown policy "{policy}"; {nearest(policy, known)}')
        for name, value in given.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{policy}: {name}: {unusable(value)}")
        resolved: dict[str, Setting] = json.loads(_core.check_policy(policy, json.dumps(given)))
        return resolved
