"""The mini-app's loop: steps, and now and then a dump of its variables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wattio.miniapp import fields
from wattio.miniapp.domain import SIZES, VARIABLES, Arrangement, Scaling, arrange, block_of, scaled
from wattio.miniapp.halo import Exchange, Periodic
from wattio.miniapp.model import Model

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Plan:
    """What to run: a size by name, how it grows with the ranks, steps, and what is written when.

    `output_every` is in steps; 0 writes nothing.
    """

    size: str
    steps: int
    output_every: int
    scaling: Scaling = "strong"
    variables: tuple[str, ...] = VARIABLES

    @property
    def dumps(self) -> int:
        """How many there will be."""
        return self.steps // self.output_every if self.output_every else 0

    def dumps_after(self, step: int) -> bool:
        """Whether a dump follows a step, counted from 1."""
        return bool(self.output_every) and step % self.output_every == 0


class Outlet(Protocol):
    """Where dumps go: a session of `wattio.hpcio`, or anything of its shape."""

    def allocate(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any] | type | str,
        global_shape: tuple[int, ...] | None = None,
        offset: tuple[int, ...] | None = None,
    ) -> NDArray[Any]:
        """An array for a variable of the current dump, to be filled in place."""

    def end_dump(self, step: int) -> None:
        """The dump is filled."""


@dataclass
class Times:
    """Seconds of each step, and of making and handing over each dump, as one rank saw them."""

    step_s: list[float] = field(default_factory=list)
    dump_s: list[float] = field(default_factory=list)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, median, 99th percentile and maximum; empty for no value."""
    if not values:
        return {}
    found = np.array(values)
    p50, p99 = np.percentile(found, [50, 99])
    return {
        "mean": float(found.mean()),
        "p50": float(p50),
        "p99": float(p99),
        "max": float(found.max()),
    }


def prepare(plan: Plan, comm: MPI.Intracomm) -> tuple[Model, Arrangement]:
    """The block of this rank. Raises InputError where there are too many ranks for the size."""
    arrangement = arrange(comm.size)
    domain = scaled(SIZES[plan.size], plan.scaling, arrangement)
    model = Model(domain, block_of(domain, arrangement, comm.rank))
    model.halo = Periodic() if comm.size == 1 else Exchange(comm, arrangement, model.state)
    return model, arrangement


def run(model: Model, plan: Plan, outlet: Outlet, ended: Callable[[int], None]) -> Times:
    """All steps and dumps; `ended` is told the number of each step that is over."""
    times = Times()
    for step in range(1, plan.steps + 1):
        begun = time.perf_counter()
        model.step()
        computed = time.perf_counter()
        times.step_s.append(computed - begun)
        if plan.dumps_after(step):
            dump(model, plan.variables, outlet, step)
            times.dump_s.append(time.perf_counter() - computed)
        ended(step)
    return times


def dump(model: Model, variables: tuple[str, ...], outlet: Outlet, step: int) -> None:
    """Hand over the variables, each made in the array that the outlet lends for it."""
    domain, block = model.domain, model.block
    shape = block.nx, block.ny, domain.nz
    offset = block.x, block.y, 0
    model.fill_halo()
    for name in variables:
        target = outlet.allocate(name, shape, np.float32, global_shape=domain.shape, offset=offset)
        fields.write(model, name, target)
    outlet.end_dump(step)
