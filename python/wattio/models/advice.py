"""Which I/O approach to take, how sure that is, and what to measure to be surer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wattio.analysis.statistics import Interval
from wattio.errors import InputError
from wattio.models import observed as observing
from wattio.models import parameter, posterior, scenario
from wattio.models.approach import Approach, Resources, resources, usual
from wattio.models.observed import Agreement, Observed
from wattio.models.parameter import Origin, Parameter, interval
from wattio.models.posterior import Sampling
from wattio.models.scenario import Application, Platform, Prediction

if TYPE_CHECKING:
    from numpy.typing import NDArray

BINS = 10
"""Slices of a parameter's interval in which the ranking is looked at again."""

GAIN_LEAST = 0.01
"""Gains of surety below one per cent are lost in the draws."""


_OBJECTIVE = re.compile(r"(energy)|(time)|edp(?::([1-9]))?")


@dataclass(frozen=True)
class Objective:
    """Energy to the power of `energy` times time to the power of `time`; less is better."""

    name: str
    energy: int
    time: int

    def of(self, energy_j: scenario.Number, time_s: scenario.Number) -> scenario.Number:
        """The value of runs."""
        return energy_j**self.energy * time_s**self.time


def parse_objective(text: str) -> Objective:
    """Read `energy`, `time`, `edp` or `edp:N` (E T^N). Raises InputError for anything else."""
    found = _OBJECTIVE.fullmatch(text)
    if found is None:
        raise InputError(
            f'"{text[:40]}" is not an objective; allowed: energy, time, edp:N'
            " (energy times time to the power of N, 1 to 9)"
        )
    if found[1]:
        return Objective(text, 1, 0)
    if found[2]:
        return Objective(text, 0, 1)
    return Objective(text, 1, int(found[3] or 1))


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

    `agreement` is how far the draws are reconciled with the known runs, `sampling` how they were
    drawn then. `lined` are the approaches whose times are known at several frequencies of output: a
    straight line through those may be the better guide (`validate`).
    """

    objective: Objective
    ranked: tuple[Ranked, ...]
    worth: tuple[InformationValue, ...]
    inputs: Mapping[Origin, Sequence[str]]
    draws: int
    seed: int
    agreement: Agreement
    lined: tuple[Approach, ...] = ()
    sampling: Sampling | None = None

    @property
    def untold(self) -> list[Ranked]:
        """Those whose energy may be the first one's or less: their 95 % interval holds 1."""
        return [
            one for one in self.ranked[1:] if one.energy_ratio.low <= 1 <= one.energy_ratio.high
        ]

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
    approaches are predicted with the same numbers; with observed runs, the draws are weighed by how
    well they predict those (`posterior`). Without `approaches`, the five of Dorier et al. 2016 are
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
        found = posterior.condition(platform, observed, draws, seed)
        values, sampling = found.values, found.sampling
    else:
        values, sampling = parameter.draw(platform.parameters, draws, seed), None
    told = of_draws(platform, application, objective, chosen, values, seed, observed)
    return replace(told, sampling=sampling)


def _check_distinct(approaches: Sequence[Approach], platform: Platform) -> None:
    if not approaches or len(set(approaches)) < len(approaches):
        raise InputError("approaches: empty, or one named twice; allowed: each at most once")
    found: dict[Resources, Approach] = {}
    for one in approaches:
        other = found.setdefault(resources(one, platform.nodes, platform.cores), one)
        if other != one:
            raise InputError(
                f"approaches: {other} and {one} are the same on {platform.nodes} nodes: both"
                " dedicate as many of them; allowed: one of them"
            )


def of_draws(
    platform: Platform,
    application: Application,
    objective: Objective,
    approaches: Sequence[Approach],
    values: Mapping[str, NDArray[np.float64]],
    seed: int,
    observed: Sequence[Observed] = (),
) -> Advice:
    """As `advise`, with draws that were made elsewhere; each array holds one number per draw."""
    draws = len(next(iter(values.values())))
    with np.errstate(over="ignore", invalid="ignore"):
        predictions = [
            scenario.discrepant(
                scenario.predict(approach, platform, application, values), application, values, seed
            )
            for approach in approaches
        ]
        scores = np.array(
            [np.broadcast_to(objective.of(p.energy_j, p.time_s), draws) for p in predictions]
        )
    _check_finite(predictions, scores, objective)
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
        observing.agreement(platform, observed, values, seed),
        observing.lined(observed, approaches),
    )


def _check_finite(
    predictions: Sequence[Prediction], scores: NDArray[np.float64], objective: Objective
) -> None:
    """Refuse what is too large for a number: it could not be ranked."""
    for one, own in zip(predictions, scores, strict=True):
        for what, found in (("time", one.time_s), ("energy", one.energy_j), (objective.name, own)):
            if not np.isfinite(found).all():
                raise InputError(
                    f"{one.approach}: {what} is too large to be computed; allowed: sizes, rates,"
                    " times and powers of real machines, and narrower intervals"
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
