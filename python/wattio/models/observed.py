"""Runs of which something is known."""

from __future__ import annotations

from dataclasses import dataclass

from wattio.models.approach import Approach
from wattio.models.scenario import Application, Number, Prediction


@dataclass(frozen=True)
class Observed:
    """A run of which the energy or the time is known; `error` is relative, one deviation.

    The error is that of the model and of the run together. `hidden`: the run took no longer than
    it does without I/O.
    """

    approach: Approach
    application: Application
    error: float
    energy_j: float | None = None
    time_s: float | None = None
    hidden: bool = False

    def deviations(self, found: Prediction) -> list[Number]:
        """How far a prediction is from each thing known of the run, in its errors."""
        import numpy as np

        pairs: list[tuple[Number, Number]] = []
        if self.energy_j is not None:
            pairs.append((found.energy_j, self.energy_j))
        if self.time_s is not None:
            pairs.append((found.time_s, self.time_s))
        if self.hidden:
            pairs.append((found.time_s, found.time_s - found.blocked_s))
        return [np.log(ours / known) / self.error for ours, known in pairs]
