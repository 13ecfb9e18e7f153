"""What a run is held to: the bounds of its load, or one on the mean by the policy's plf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

from wattio.results.runs import Run
from wattio.results.states import PERCENTILES
from wattio.simulator import oracle
from wattio.simulator.bounds import Bound
from wattio.simulator.policies import BOUND_BY

FACT = "bounds"
"""What a run's facts call bounds that were given; absent, the facts' plf bounds the mean."""

_BETWEEN = "; "

MEAN = "mean"
"""The kind of a bound on the mean."""

Written = Annotated[str, AfterValidator(lambda text: Bound.parse(text).text)]
"""A bound as a user writes it, in a study file."""


def fact(bounds: Sequence[str]) -> str:
    """Bounds as one fact of a run."""
    return _BETWEEN.join(bounds)


def are_given(run: Run) -> bool:
    """Whether bounds were given, in place of a plf; no result of an earlier version has any."""
    return FACT in run.facts


def of(run: Run) -> tuple[Bound, ...]:
    """The bounds that a run is held to, one at least."""
    if are_given(run):
        return tuple(Bound.parse(text) for text in str(run.facts[FACT]).split(_BETWEEN))
    if run.policy == BOUND_BY:
        settings = {**oracle.DEFAULTS, **run.settings}
        return (Bound.parse(oracle.bound_of(settings)),)
    return (Bound.of_plf(run.plf),)


def told(run: Run) -> str:
    """The bounds of a run as a user writes them: "p99 20% run"."""
    return " and ".join(bound.text for bound in of(run))


def kind(run: Run) -> str:
    """What a run's bounds are on: "mean", "p99", or several, "p99 and mean"."""
    return " and ".join(dict.fromkeys(bound.statistic for bound in of(run)))


def latency(run: Run) -> tuple[str, str]:
    """The latency that a run's first bound is on: the metric, and what it is called.

    The mean where no metric is kept of it.
    """
    quantile = of(run)[0].quantile
    found = [name for name, share in PERCENTILES.items() if share == quantile]
    return (found[0], f"{of(run)[0].statistic} latency") if found else _OF_MEAN


_OF_MEAN = ("latency_us_mean", "mean latency")
