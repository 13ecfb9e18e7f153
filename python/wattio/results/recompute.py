"""Two derivations of a metric: what is recorded, and what is derived again."""

from __future__ import annotations

from dataclasses import dataclass

from wattio.analysis import energy

BALANCE_LIMIT = 1e-9
"""Largest relative difference between sums that should be equal."""


@dataclass(frozen=True)
class Difference:
    """A metric whose two derivations do not agree; None where one of them lacks it."""

    run: str
    seed: int
    metric: str
    recorded: float | None
    derived: float | None
    source: str


def agree(recorded: float | None, derived: float | None) -> bool:
    """Whether two derivations of a metric agree within rounding."""
    if recorded is None or derived is None:
        return recorded is derived
    return energy.balance_error(recorded, {"derived": derived}) <= BALANCE_LIMIT
