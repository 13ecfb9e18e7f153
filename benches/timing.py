"""Timing beside a peer: rounds in turn, processor time, medians.

A shared machine is slow in stretches. The peer and ours therefore take turns, so that a stretch
hits both; processor time leaves out what others ran meanwhile; the median leaves out what is left
of it. The spread (least and most of the rounds) is told beside it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")


class BenchError(Exception):
    """A benchmark whose results are wrong: its speed would mean nothing."""


@dataclass(frozen=True)
class Timed(Generic[T]):
    """What a call returned, and the seconds of processor and of wall time that it took."""

    result: T
    cpu_s: float
    wall_s: float


def in_turn(rounds: int, calls: Mapping[str, Callable[[int], T]]) -> dict[str, list[Timed[T]]]:
    """Call each of `calls` once a round, with the number of the round (from 1) as its seed."""
    taken: dict[str, list[Timed[T]]] = {name: [] for name in calls}
    for number in range(1, rounds + 1):
        for name, call in calls.items():
            gc.collect()
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            result = call(number)
            cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
            taken[name].append(Timed(result, cpu_s, wall_s))
    return taken


@dataclass(frozen=True)
class Rate:
    """Units of work in a second of processor time, round by round, and in one of wall time."""

    cpu_per_s: tuple[float, ...]
    wall_per_s: tuple[float, ...]

    @classmethod
    def of(cls, rounds: list[Timed[T]], count: Callable[[T], float]) -> Rate:
        """The rates of rounds, where `count` tells how many units a result stands for."""
        return cls(
            tuple(count(one.result) / one.cpu_s for one in rounds),
            tuple(count(one.result) / one.wall_s for one in rounds),
        )

    @property
    def median(self) -> float:
        """The rate to go by."""
        return median(self.cpu_per_s)

    def as_json(self) -> dict[str, float]:
        """Median and spread as plain data."""
        return {
            "median": self.median,
            "least": min(self.cpu_per_s),
            "most": max(self.cpu_per_s),
            "wall_median": median(self.wall_per_s),
        }


@dataclass(frozen=True)
class Goal:
    """What a line must reach (`least`), and what is hoped for."""

    of: Literal["ratio", "ours"]
    least: float
    hoped: float | None = None


@dataclass(frozen=True)
class Line:
    """One line of the result: a peer and ours, in `unit` a second of one core."""

    name: str
    unit: str
    peer_name: str
    peer: Rate
    ours: Rate
    goal: Goal | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        """Ours over the peer: the median over the rounds, each a ratio of neighbours in time."""
        pairs = zip(self.ours.cpu_per_s, self.peer.cpu_per_s, strict=True)
        return median(ours / peer for ours, peer in pairs)

    @property
    def reached(self) -> bool:
        """Whether the goal is met; a line without one has nothing to miss."""
        return self.goal is None or self._value >= self.goal.least

    @property
    def hope_reached(self) -> bool | None:
        """Whether what is hoped for is met; None where nothing is."""
        if self.goal is None or self.goal.hoped is None:
            return None
        return self._value >= self.goal.hoped

    @property
    def _value(self) -> float:
        return self.ratio if self.goal and self.goal.of == "ratio" else self.ours.median

    def as_json(self) -> dict[str, Any]:
        """The line as plain data."""
        goal = None
        if self.goal is not None:
            goal = {
                "of": self.goal.of,
                "least": self.goal.least,
                "hoped": self.goal.hoped,
                "reached": self.reached,
                "hope_reached": self.hope_reached,
            }
        return {
            "name": self.name,
            "ratio": self.ratio,
            "unit": f"{self.unit}/s",
            "peer": {"name": self.peer_name, **self.peer.as_json()},
            "ours": self.ours.as_json(),
            "rounds": len(self.ours.cpu_per_s),
            "goal": goal,
            "note": self.note,
        }
