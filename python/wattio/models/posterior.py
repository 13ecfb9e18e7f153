"""What runs whose energy or time is known say of parameters: draws from the joint distribution.

A platform file may name observed runs. Its intervals are then what was believed before, and the
draws that advice rests on are weighed by how well they predict those runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattio.errors import InputError, needed
from wattio.models import scenario
from wattio.models.observed import Observed
from wattio.models.parameter import Parameter
from wattio.models.scenario import DISCREPANCY, Platform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

WALKERS = 64
STARTS = 100
"""Draws of the intervals for each walker, of which the most likely ones are where they start."""

TIMES_LEAST = 20
"""Autocorrelation times that a chain must be long after its burn-in.

Each of the walkers is then worth so many independent draws, all together three times the 400 that
are commonly asked for, and their mean gives the time itself.
"""

STEPS_FIRST = 1000
"""Steps after which it is first looked at whether the chain has converged."""

GROWTH = 1.5
"""By how much longer a chain is at the next look, as looking takes its time, too."""

STEPS_MOST = 30_000
"""A chain that has not converged by then is given up."""

BURN_IN = 0.2
"""The share of a chain's steps that is dropped at its beginning."""

FAR = 4.0
"""Root mean square of errors beyond which the intervals do not hold the runs."""


@dataclass(frozen=True)
class Sampling:
    """How good a chain is: `autocorrelation_steps` is that of the slowest parameter.

    `effective` is how many independent draws it is worth.
    """

    walkers: int
    steps: int
    autocorrelation_steps: float
    effective: int

    def __str__(self) -> str:
        """In words."""
        return (
            f"{self.walkers} walkers of emcee, {self.steps} steps each, autocorrelation time"
            f" {self.autocorrelation_steps:.0f} steps: {self.effective:,} effective samples"
        )


@dataclass(frozen=True)
class Sampled:
    """Draws of each parameter, the highest log-likelihood met, and how they were made.

    `sampling` is None if no parameter has any width.
    """

    values: dict[str, Array]
    best: float
    sampling: Sampling | None


def condition(
    platform: Platform,
    observed: Sequence[Observed],
    draws: int,
    seed: int,
    steps_most: int = STEPS_MOST,
) -> Sampled:
    """Draws of the platform's parameters, given the observed runs.

    The likelihood is normal in the logarithm of energy and time, its variance that of the run's
    error and of the model's discrepancy. Raises InputError where no draw comes near the observed
    runs, so that the intervals do not hold them, and where the chain does not converge.
    """

    def squares(values: dict[str, Array]) -> tuple[Array, Array]:
        """Of all deviations in their errors, and the logarithm of the errors' product."""
        total, logs = (np.zeros(len(next(iter(values.values())))) for _ in range(2))
        model = values.get(DISCREPANCY, np.zeros(1))
        for run in observed:
            found = scenario.predict(run.approach, platform, run.application, values)
            error = np.sqrt(run.error**2 + model**2)
            for deviation in run.deviations(found):
                total += (deviation / error) ** 2
                logs += np.log(error)
            if run.hidden:
                total += (run.waiting(found) / run.error) ** 2
        return total, logs

    def log_likelihood(values: dict[str, Array]) -> Array:
        total, logs = squares(values)
        return -total / 2 - logs

    found = sample(platform.parameters, log_likelihood, draws, seed, steps_most)
    nearest = float(squares(found.values)[0].min())
    if nearest > FAR**2 * len(observed):
        raise InputError(
            f'the intervals of the platform "{platform.name}" do not contain its observed runs: the'
            f" nearest draw is {(nearest / len(observed)) ** 0.5:.1f} errors off; allowed: wider"
            " intervals, or a larger error"
        )
    return found


def sample(
    parameters: Sequence[Parameter],
    log_likelihood: Callable[[dict[str, Array]], Array],
    draws: int,
    seed: int,
    steps_most: int = STEPS_MOST,
) -> Sampled:
    """Draws by emcee's ensemble sampler, which goes on until its chain is long enough.

    Walkers move where each parameter's share (`Parameter.quantile`) is that of a standard normal
    number, so that what was believed before is normal and has no edges. Seeded. Raises InputError
    for a chain that has not converged after `steps_most` steps: no interval of it would mean
    anything.
    """
    from scipy.special import ndtr, ndtri

    free = [parameter for parameter in parameters if not parameter.is_certain]
    certain = [parameter for parameter in parameters if parameter.is_certain]

    def values(normal: Array) -> dict[str, Array]:
        found = {p.name: np.full(len(normal), p.value) for p in certain}
        return found | {p.name: p.quantile(ndtr(normal[:, at])) for at, p in enumerate(free)}

    def likely(normal: Array) -> Array:
        found = log_likelihood(values(normal))
        return np.where(np.isfinite(found), found, -np.inf)

    random = np.random.default_rng(seed)
    start = ndtri(random.random((STARTS * WALKERS, len(free))))
    first = likely(start)
    nearest = np.argsort(-first, kind="stable")[:WALKERS]
    if not free or first[nearest[-1]] == -np.inf:
        return Sampled(values(np.zeros((draws, len(free)))), float(first[nearest[0]]), None)
    chain, best, sampling = _walk(likely, start[nearest], seed, steps_most)
    chosen = random.integers(len(chain), size=draws)
    return Sampled(values(chain[chosen]), best, sampling)


def _walk(
    likely: Callable[[Array], Array], start: Array, seed: int, steps_most: int
) -> tuple[Array, float, Sampling]:
    """All places that walkers were at after the burn-in, and the likeliest of these."""
    try:
        import emcee
    except ImportError:
        raise InputError(f"emcee is not installed: {needed('models')}") from None

    def log_probability(normal: Array) -> Array:
        return np.asarray(likely(normal) - (normal**2).sum(axis=1) / 2)

    moves = [(emcee.moves.StretchMove(), 0.4), (emcee.moves.DEMove(), 0.6)]
    walkers, dimensions = start.shape
    sampler = emcee.EnsembleSampler(
        walkers, dimensions, log_probability, vectorize=True, moves=moves
    )
    state = emcee.State(start, random_state=np.random.RandomState(seed).get_state())
    aim, longest = STEPS_FIRST, math.nan
    while sampler.iteration < steps_most:
        state = sampler.run_mcmc(state, min(aim, steps_most) - sampler.iteration)
        aim = int(GROWTH * aim)
        dropped = int(BURN_IN * sampler.iteration)
        # Where nobody has moved yet, the time of that is none.
        with np.errstate(invalid="ignore"):
            times = sampler.get_autocorr_time(discard=dropped, tol=0)
        longest, steps = float(np.max(times)), sampler.iteration - dropped
        if np.all(np.isfinite(times)) and steps >= TIMES_LEAST * longest:
            chain = sampler.get_chain(discard=dropped, flat=True)
            logs = sampler.get_log_prob(discard=dropped, flat=True)
            best = float(np.max(logs + (chain**2).sum(axis=1) / 2))
            effective = int(walkers * steps / longest)
            return chain, best, Sampling(walkers, sampler.iteration, longest, effective)
    raise InputError(
        f"the draws have not converged after {sampler.iteration} steps (autocorrelation time"
        f" {longest:.0f} steps, {TIMES_LEAST} of them are needed), so no interval is given;"
        " allowed: inputs with narrower intervals, or another --seed"
    )
