"""Which I/O approach to take, how sure that is, and what to measure to be surer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattio.analysis.statistics import Interval
from wattio.errors import InputError
from wattio.models import parameter, posterior, scenario
from wattio.models.approach import Approach, Resources, resources, usual
from wattio.models.objective import Objective
from wattio.models.observed import Observed
from wattio.models.parameter import Origin, Parameter
from wattio.models.scenario import Application, Platform, Prediction

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIDENCE = 0.95

BINS = 10
"""Slices of a parameter's interval in which the ranking is looked at again."""

GAIN_LEAST = 0.01
"""Gains of surety below one per cent are lost in the draws."""


@dataclass(frozen=True)
class Ranked:
    """An approach with its medians and 95 % intervals.

    `first_share` is the share of draws in which no other approach is better, `energy_ratio` its
    energy over the first one's, draw by draw. Power is the mean of all nodes together.
    """

    prediction: Prediction
    time_s: Interval
    blocked_s: Interval
    power_w_mean: Interval
    energy_j: Interval
    energy_ratio: Interval
    first_share: float


@dataclass(frozen=True)
class InformationValue:
    """What knowing a parameter exactly would bring: how sure the first place would be then."""

    parameter: Parameter
    first_share: float
    gain: float


@dataclass(frozen=True)
class Advice:
    """Approaches, the best first; what to measure, the most useful first; inputs by origin.

    `observed` is how many known runs the draws were reconciled with.
    """

    objective: Objective
    ranked: tuple[Ranked, ...]
    worth: tuple[InformationValue, ...]
    inputs: Mapping[Origin, Sequence[str]]
    draws: int
    seed: int
    observed: int = 0

    @property
    def first(self) -> Ranked:
        """The winner."""
        return self.ranked[0]


def advise(
    platform: Platform,
    application: Application,
    objective: Objective,
    approaches: Sequence[Approach] | None = None,
    draws: int = 20_000,
    seed: int = 1,
    observed: Sequence[Observed] = (),
) -> Advice:
    """Rank approaches by the share of draws in which each is best, then by their medians.

    In each draw every parameter is drawn from its interval (`Parameter.quantile`), and all
    approaches are predicted with the same numbers; with observed runs, the draws are such that
    they agree with those (`conditioning`). Without `approaches`, the document's five are
    compared. Raises InputError for another application than the platform was profiled with, for
    no approaches, for two that come to the same, and for those that the platform does not allow.
    """
    if application.name != platform.application:
        raise InputError(
            f'the platform "{platform.name}" was profiled with "{platform.application}", not with'
            f' "{application.name}"; allowed: an application of that name'
        )
    chosen = list(usual(platform.nodes, platform.cores) if approaches is None else approaches)
    _check_distinct(chosen, platform)
    if observed:
        values = posterior.condition(platform, observed, draws, seed)
    else:
        values = parameter.draw(platform.parameters, draws, seed)
    return of_draws(platform, application, objective, chosen, values, seed, len(observed))


def _check_distinct(approaches: Sequence[Approach], platform: Platform) -> None:
    if not approaches or len(set(approaches)) < len(approaches):
        raise InputError("approaches: none, or one twice; allowed: each at most once")
    found: dict[Resources, Approach] = {}
    for one in approaches:
        other = found.setdefault(resources(one, platform.nodes, platform.cores), one)
        if other != one:
            raise InputError(
                f"approaches: {other} and {one} are the same on {platform.nodes} nodes: both"
                " dedicate as many of them; allowed: one of both"
            )


def of_draws(
    platform: Platform,
    application: Application,
    objective: Objective,
    approaches: Sequence[Approach],
    values: Mapping[str, NDArray[np.float64]],
    seed: int,
    observed: int = 0,
) -> Advice:
    """As `advise`, with draws that were made elsewhere; each array holds one number per draw."""
    draws = len(next(iter(values.values())))
    predictions = [
        scenario.predict(approach, platform, application, values) for approach in approaches
    ]
    scores = np.array(
        [np.broadcast_to(objective.of(p.energy_j, p.time_s), draws) for p in predictions]
    )
    shares = np.bincount(scores.argmin(axis=0), minlength=len(predictions)) / draws
    medians = np.median(scores, axis=1)
    order = sorted(range(len(predictions)), key=lambda at: (-shares[at], medians[at]))
    best = predictions[order[0]]
    ranked = [_ranked(predictions[at], best, float(shares[at]), draws) for at in order]
    return Advice(
        objective,
        tuple(ranked),
        tuple(_worth(platform.parameters, values, scores)),
        parameter.by_origin(platform.parameters),
        draws,
        seed,
        observed,
    )


def _ranked(prediction: Prediction, best: Prediction, share: float, draws: int) -> Ranked:
    energy = np.broadcast_to(prediction.energy_j, draws)
    return Ranked(
        prediction,
        interval(prediction.time_s),
        interval(prediction.blocked_s),
        interval(prediction.power_w_mean),
        interval(energy),
        interval(energy / best.energy_j),
        share,
    )


def interval(drawn: scenario.Number) -> Interval:
    """Median and 95 % interval of what was drawn."""
    low, median, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, 0.5, (1 + CONFIDENCE) / 2])
    return Interval(float(median), float(low), float(high), CONFIDENCE)


def _worth(
    parameters: Sequence[Parameter],
    values: Mapping[str, NDArray[np.float64]],
    scores: NDArray[np.float64],
) -> list[InformationValue]:
    """How sure the first place would be, were one parameter known, in the mean over its draws.

    The draws are cut into slices of the parameter; in each the approach that is best most often
    would be taken.
    """
    first = scores.argmin(axis=0)
    now = np.bincount(first).max() / first.size
    found = []
    for one in parameters:
        drawn = values[one.name]
        if np.ptp(drawn) == 0:
            continue
        slices = np.array_split(first[np.argsort(drawn, kind="stable")], BINS)
        then = sum(np.bincount(part).max() for part in slices if part.size) / first.size
        found.append(InformationValue(one, float(then), float(then - now)))
    found.sort(key=lambda worth: -worth.gain)
    return [worth for worth in found if worth.gain >= GAIN_LEAST]
