"""What runs whose energy or time is known say of parameters: draws from the joint distribution.

A platform file may name observed runs. Its intervals are then what was believed before, and the
draws that advice rests on are weighed by how well they predict those runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wattio.errors import InputError
from wattio.models import scenario
from wattio.models.observed import Observed
from wattio.models.parameter import Parameter
from wattio.models.scenario import Platform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

WALKERS = 256
BURN_IN_EACH = 350
EVERY = 30
"""Moves of all walkers before the first draw is kept, for each parameter; and between two draws."""

FAR = 4.0
"""Root mean square of errors beyond which the intervals do not hold the runs."""

STRETCH = 2.0
"""Goodman and Weare's a: how far a walker may move at once."""

STARTS = 100
"""Draws of the intervals for each walker, of which the most likely ones are where they start."""


def condition(
    platform: Platform, observed: Sequence[Observed], draws: int, seed: int
) -> dict[str, Array]:
    """Draws of the platform's parameters, given the observed runs.

    The likelihood is normal in the logarithm of energy and time. Raises InputError where no draw
    comes near the observed runs, so that the intervals do not hold them.
    """

    def log_likelihood(values: dict[str, Array]) -> Array:
        total: Array = np.zeros(len(next(iter(values.values()))))
        for run in observed:
            found = scenario.predict(run.approach, platform, run.application, values)
            for deviation in run.deviations(found):
                total -= deviation**2 / 2
        return total

    drawn, best = sample(platform.parameters, log_likelihood, draws, seed)
    if -2 * best > FAR**2 * len(observed):
        raise InputError(
            f'the intervals of the platform "{platform.name}" do not hold its observed runs: the'
            f" nearest draw is {(-2 * best / len(observed)) ** 0.5:.1f} errors off; allowed: wider"
            " intervals, or a larger error"
        )
    return drawn


def sample(
    parameters: Sequence[Parameter],
    log_likelihood: Callable[[dict[str, Array]], Array],
    draws: int,
    seed: int,
) -> tuple[dict[str, Array], float]:
    """Draws by the affine-invariant ensemble sampler, and the highest log-likelihood met.

    Walkers move in the cube of each parameter's shares (0 to 1), where what was believed before
    is even; `Parameter.quantile` leads from there to numbers. Seeded.
    Source: Goodman and Weare, Ensemble samplers with affine invariance, 2010, equations (7), (8).
    """
    free = [parameter for parameter in parameters if not parameter.is_certain]
    certain = [parameter for parameter in parameters if parameter.is_certain]
    random = np.random.default_rng(seed)

    def values(cube: Array) -> dict[str, Array]:
        found = {p.name: np.full(len(cube), p.value) for p in certain}
        return found | {p.name: p.quantile(cube[:, at]) for at, p in enumerate(free)}

    cube = random.random((STARTS * WALKERS, len(free)))
    likely = log_likelihood(values(cube))
    start = np.argsort(-likely)[:WALKERS]
    cube, likely = cube[start], likely[start]
    best = float(likely[0])
    kept = []
    rounds = -(-draws // WALKERS)
    burn_in = BURN_IN_EACH * len(free)
    for step in range(burn_in + rounds * EVERY):
        order = random.permutation(WALKERS)
        for moving, still in _halves(order):
            _move(random, cube, likely, moving, still, lambda c: log_likelihood(values(c)))
        best = max(best, float(likely.max()))
        if step >= burn_in and (step - burn_in) % EVERY == 0:
            kept.append(cube.copy())
    return values(np.concatenate(kept)[:draws]), best


def _halves(order: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    half = len(order) // 2
    return [(order[:half], order[half:]), (order[half:], order[:half])]


def _move(
    random: np.random.Generator,
    cube: Array,
    likely: Array,
    moving: NDArray[np.int64],
    still: NDArray[np.int64],
    log_likelihood: Callable[[Array], Array],
) -> None:
    """One stretch move of half of the walkers towards or away from the other half, in place."""
    count, dimensions = len(moving), cube.shape[1]
    # z with density proportional to 1/sqrt(z) between 1/a and a.
    z = ((STRETCH - 1) * random.random(count) + 1) ** 2 / STRETCH
    others = cube[random.choice(still, count)]
    asked = others + z[:, None] * (cube[moving] - others)
    inside = np.all((asked >= 0) & (asked <= 1), axis=1)
    then = np.full(count, -np.inf)
    if inside.any():
        then[inside] = log_likelihood(asked[inside])
    chance = (dimensions - 1) * np.log(z) + then - likely[moving]
    taken = np.log(random.random(count)) < chance
    cube[moving[taken]], likely[moving[taken]] = asked[taken], then[taken]
