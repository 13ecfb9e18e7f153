"""Which runs left background work undone: a saving beside that is none.

The floor is the study's own (`pacer_data.BACKGROUND_FLOOR`); the document has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattio.analysis.statistics import Interval
from wattio.simulator.policies import REFERENCE

from validation.pacer.data import BACKGROUND_FLOOR, Evaluation


@dataclass(frozen=True)
class Missed:
    """A policy on a load that did too little background work in at least one seed."""

    label: str
    load: str
    done: Interval
    seeds_missed: int
    seeds: int
    saving_percent: Interval | None


@dataclass(frozen=True)
class Floor:
    """The failures, and how many pairs of policy and load were held against the floor."""

    missed: list[Missed]
    held_against: int
    too_busy: list[str]
    """Loads on which native itself has no time for what becomes due, so that nothing is held."""


def failures(study: Evaluation) -> Floor:
    """Every policy on every load held against the floor, seed by seed."""
    missed, count, too_busy = [], 0, []
    for load in study.loads(REFERENCE):
        if study.background_done(load, REFERENCE) is None:
            too_busy.append(load)
            continue
        for label in study.labels(load):
            done = study.background_done(load, label)
            if label == REFERENCE or done is None:
                continue
            count += 1
            ratios = study.background_ratios(load, label)
            below = sum(ratio < BACKGROUND_FLOOR for ratio in ratios)
            if below:
                saving = study.saving_percent(load, label)
                missed.append(Missed(label, load, done, below, len(ratios), saving))
    return Floor(sorted(missed, key=lambda one: one.done.estimate), count, too_busy)
