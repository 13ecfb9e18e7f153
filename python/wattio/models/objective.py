"""What an I/O approach is chosen by: energy, time, or their product with time to some power."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wattio.errors import InputError
from wattio.models.scenario import Number

_TEXT = re.compile(r"(energy)|(time)|edp(?::([1-9]))?")


@dataclass(frozen=True)
class Objective:
    """Energy to the power of `energy` times time to the power of `time`; less is better."""

    name: str
    energy: int
    time: int

    def of(self, energy_j: Number, time_s: Number) -> Number:
        """The value of runs."""
        return energy_j**self.energy * time_s**self.time


def parse(text: str) -> Objective:
    """Read `energy`, `time`, `edp` or `edp:N` (E T^N). Raises InputError for anything else."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise InputError(
            f'"{text[:40]}" is no objective; allowed: energy, time, edp:N'
            " (energy times time to the power of N, 1 to 9)"
        )
    if found[1]:
        return Objective(text, 1, 0)
    if found[2]:
        return Objective(text, 0, 1)
    return Objective(text, 1, int(found[3] or 1))
