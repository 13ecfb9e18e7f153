"""Which settings are visited, in which order, and how long that takes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

IDLE_EVERY = 5
"""An idle point stands before so many others, and at the end: they show a drift."""

IDLE_LEAST = 3
"""So many it takes to see one."""

READERS = (1, 4)
"""Depths of the I/O load, in readers that each wait for one read."""


@dataclass(frozen=True)
class Setting:
    """What is asked of the host at one point; `frequency_hz` is None if it is left alone."""

    frequency_hz: float | None
    cores: int
    load: float
    readers: int = 0
    is_idle: bool = False

    @property
    def name(self) -> str:
        """As it is printed."""
        if self.is_idle:
            return "idle"
        parts = [f"{self.frequency_hz / 1e9:g} GHz"] if self.frequency_hz is not None else []
        parts += [f"{self.cores} core{'s' if self.cores > 1 else ''}", f"load {self.load:g}"]
        if self.readers:
            parts.append(f"{self.readers} reader{'s' if self.readers > 1 else ''}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Design:
    """What is swept. No frequencies: they are left alone. `cores` and `loads` have one at least."""

    frequencies_hz: tuple[float, ...]
    cores: tuple[int, ...]
    loads: tuple[float, ...]
    with_io: bool
    repeat: int
    seed: int
    settle_s: float
    measure_s: float

    def settings(self) -> list[Setting]:
        """Every combination, each repetition in an order of its own drawn from the seed.

        I/O is swept at the highest frequency with all cores: its coefficient depends on neither.
        """
        drawn = random.Random(self.seed)  # noqa: S311 (an order, no secret)
        frequencies: Sequence[float | None] = self.frequencies_hz or (None,)
        top = max(self.frequencies_hz, default=None)
        most = max(self.cores)
        once = [Setting(*each) for each in itertools.product(frequencies, self.cores, self.loads)]
        if self.with_io:
            once += [Setting(top, most, *each) for each in itertools.product(self.loads, READERS)]
        idle = Setting(top, most, 0.0, is_idle=True)
        others: list[Setting] = []
        for _ in range(self.repeat):
            drawn.shuffle(once)
            others += once
        every = min(IDLE_EVERY, max(len(others) // (IDLE_LEAST - 1), 1))
        found: list[Setting] = []
        for at, setting in enumerate(others):
            if at % every == 0:
                found.append(idle)
            found.append(setting)
        return [*found, idle]

    @property
    def step_s(self) -> float:
        """How long one point takes."""
        return self.settle_s + self.measure_s
