"""Runs of which something is known, and how far draws are reconciled with them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from wattio.models import scenario
from wattio.models.approach import Approach
from wattio.models.parameter import Values, interval
from wattio.models.scenario import Application, Number, Platform, Prediction

if TYPE_CHECKING:
    from wattio.analysis.statistics import Interval

Quantity = Literal["energy_j", "time_s", "waiting_share"]


@dataclass(frozen=True)
class Observed:
    """A run of which the energy or the time is known; `error` is relative, one deviation.

    The error is that of the run, and of the model, too, where its discrepancy is not known.
    `hidden`: the run took no longer than it does without I/O.
    """

    approach: Approach
    application: Application
    error: float
    energy_j: float | None = None
    time_s: float | None = None
    hidden: bool = False

    def deviations(self, found: Prediction) -> list[Number]:
        """Logarithms of predicted energy and time over the known ones, of what is known."""
        import numpy as np

        pairs: list[tuple[Number, Number]] = []
        if self.energy_j is not None:
            pairs.append((found.energy_j, self.energy_j))
        if self.time_s is not None:
            pairs.append((found.time_s, self.time_s))
        return [np.log(ours / known) for ours, known in pairs]

    def waiting(self, found: Prediction) -> Number:
        """Logarithm of a predicted time over that without waiting: 0 if it is hidden."""
        import numpy as np

        return np.log(found.time_s / (found.time_s - found.blocked_s))


@dataclass(frozen=True)
class Known:
    """One thing known of a run beside what the draws predict; a hidden run waits for nothing."""

    run: Observed
    quantity: Quantity
    value: float
    predicted: Interval

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds what is known; waiting within the run's error is none."""
        slack = self.run.error if self.quantity == "waiting_share" else 0.0
        return self.predicted.low - slack <= self.value <= self.predicted.high


@dataclass(frozen=True)
class Agreement:
    """What is known of runs beside the draws, and pairs that these have in the other order.

    `reversed` holds the one that is known to take less, then the one that is predicted to.
    """

    runs: int
    known: tuple[Known, ...]
    reversed: tuple[tuple[Known, Known], ...]

    @property
    def outside(self) -> tuple[Known, ...]:
        """What the intervals do not hold."""
        return tuple(one for one in self.known if not one.is_inside)

    @property
    def inside(self) -> int:
        """Runs of which everything known lies inside."""
        return self.runs - len({id(one.run) for one in self.outside})


def agreement(
    platform: Platform, observed: Sequence[Observed], values: Values, seed: int
) -> Agreement:
    """Predict each known run with these draws, and compare.

    Orders are of the medians, among runs of one application of which the same is known.
    """
    known: list[Known] = []
    for run in observed:
        found = scenario.predict(run.approach, platform, run.application, values)
        found = scenario.discrepant(found, run.application, values, seed)
        waiting = found.blocked_s / found.time_s
        told: Mapping[Quantity, tuple[float | None, Number]] = {
            "energy_j": (run.energy_j, found.energy_j),
            "time_s": (run.time_s, found.time_s),
            "waiting_share": (0.0 if run.hidden else None, waiting),
        }
        known += [
            Known(run, quantity, value, interval(predicted))
            for quantity, (value, predicted) in told.items()
            if value is not None
        ]
    pairs = itertools.permutations(known, 2)
    turned = [
        (less, more)
        for less, more in pairs
        if less.quantity == more.quantity
        and less.run.application == more.run.application
        and less.value < more.value
        and less.predicted.estimate > more.predicted.estimate
    ]
    return Agreement(len(observed), tuple(known), tuple(turned))


def lined(observed: Sequence[Observed], approaches: Sequence[Approach]) -> tuple[Approach, ...]:
    """Approaches whose time is known at several frequencies of output of one application.

    Through those times a straight line can be laid.
    """
    every: dict[tuple[Approach, Application], set[int]] = {}
    for run in observed:
        if run.time_s is not None:
            alike = replace(run.application, output_every=0)
            every.setdefault((run.approach, alike), set()).add(run.application.output_every)
    known = {approach for (approach, _), found in every.items() if len(found) > 1}
    return tuple(one for one in approaches if one in known)
