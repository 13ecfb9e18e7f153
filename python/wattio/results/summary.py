"""The summary of a result: each phase of each run over its iterations; from the catalog alone.

Means are over VALID and WARN iterations, geometric ones for ratios; INVALID iterations are counted
and never averaged. Of several attempts at one repetition, the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wattio.analysis import statistics
from wattio.analysis.ranged import Ranged
from wattio.analysis.statistics import Interval
from wattio.results import modelled_values
from wattio.results.kept import Kept
from wattio.results.runs import WHOLE, Metrics, Recorded, Run

RATIO = "relative_"
"""How the name of a metric begins that is a ratio to another run of the same load."""

BOUND_KEPT = "bound_latency_us_mean_ok"
"""The metric of a bound on the mean by a plf: above 0 if it was kept."""

BOUNDS_KEPT = "bound_kept"
"""The same of bounds that were given in place of a plf: above 0 if every one was kept."""

EQUAL_WORK = 1e-6
"""Largest relative difference between amounts of work that count as equal."""

AMOUNTS = ("files", "bytes", "operations")
"""Metrics that say how much work was done; the first that all have counts."""


@dataclass(frozen=True)
class Estimate:
    """A metric over iterations. `deviation` and `interval` need two of them.

    The interval is Student's t interval of the mean, 95 %; of a geometric mean, of the logarithms.
    `ranged` is what the values may be where they rest on a power model whose range is known.
    """

    unit: str
    values: tuple[float, ...]
    mean: float
    deviation: float | None
    interval: Interval | None
    ranged: Ranged | None = None

    @property
    def n(self) -> int:
        """How many iterations it is over."""
        return len(self.values)


@dataclass(frozen=True)
class Row:
    """One phase of one run over its iterations."""

    run: Run
    phase: str
    valid: int
    warned: int
    invalid: int
    metrics: dict[str, Estimate]

    @property
    def used(self) -> int:
        """Iterations that the means are over."""
        return self.valid + self.warned

    def get(self, name: str) -> Estimate | None:
        """A metric, measured or else estimated; None if no iteration gave it."""
        return self.metrics.get(name) or self.metrics.get(f"estimated_{name}")

    def mean(self, name: str) -> float | None:
        """A metric's mean; None if no iteration gave it."""
        found = self.get(name)
        return None if found is None else found.mean

    def is_estimated(self, name: str) -> bool:
        """Whether a metric is there as an estimate only."""
        return name not in self.metrics and f"estimated_{name}" in self.metrics

    @property
    def bound_kept(self) -> bool | None:
        """Whether every iteration kept its bound; None if none was held to one."""
        kept = self.metrics.get(BOUNDS_KEPT) or self.metrics.get(BOUND_KEPT)
        return None if kept is None else min(kept.values) > 0


def rows(iterations: Sequence[Recorded]) -> list[Row]:
    """One row for each phase of each run, in the order of the plan."""
    found = []
    for group in _by_run(iterations).values():
        used = [item for item in group if item.usable]
        warned = sum(any(v.verdict == "WARN" for v in item.verdicts) for item in used)
        counts = (len(used) - warned, warned, len(group) - len(used))
        phases = dict.fromkeys(phase for item in group for phase in item.by_phase)
        for phase in phases:
            parts = [item.by_phase[phase] for item in used if phase in item.by_phase]
            means = estimates(parts)
            if parts and isinstance(parts[0], Kept):
                means = parts[0].like(means)
            found.append(Row(group[0].run, phase, *counts, means))
        if not phases:
            found.append(Row(group[0].run, WHOLE, *counts, {}))
    return found


def by_subject(found: Sequence[Row]) -> list[Row]:
    """Rows subject by subject, each subject's in the order of the plan."""
    subjects = list(dict.fromkeys(row.run.subject for row in found))
    return sorted(found, key=lambda row: subjects.index(row.run.subject))


def last_attempts(iterations: Iterable[Recorded]) -> list[Recorded]:
    """Of several attempts at one repetition, the last one."""
    found: dict[tuple[str, int, int], Recorded] = {}
    for item in iterations:
        key = item.run.name, item.seed, item.repetition
        if key not in found or item.attempt > found[key].attempt:
            found[key] = item
    return list(found.values())


def equal_work(among: Sequence[Row]) -> bool:
    """Whether every row did the same work: as many files, bytes moved, or operations.

    Files count before their bytes: what a build makes may hold times and places.
    """
    for name in AMOUNTS:
        amounts = [row.metrics.get(name) for row in among]
        means = [amount.mean for amount in amounts if amount is not None]
        if len(means) == len(among) and max(means) > 0:
            return (max(means) - min(means)) / max(means) <= EQUAL_WORK
    return False


def estimates(parts: Sequence[Metrics]) -> dict[str, Estimate]:
    """Every metric over the iterations that gave it."""
    found = {}
    for name in sorted({name for part in parts for name in part}):
        values = tuple(part[name][0] for part in parts if name in part)
        unit = next(part[name][1] for part in parts if name in part)
        deviation = statistics.sample_deviation(values)
        if name.startswith(RATIO) and all(value > 0 for value in values):
            mean = statistics.geometric_mean(values)
            interval = statistics.geometric_interval(values)
        else:
            mean = sum(values) / len(values)
            interval = statistics.mean_interval(values)
        ranged = modelled_values.ranged(name, [part for part in parts if name in part])
        found[name] = Estimate(unit, values, mean, deviation, interval, ranged)
    return found


def _by_run(iterations: Sequence[Recorded]) -> dict[str, list[Recorded]]:
    groups: dict[str, list[Recorded]] = {}
    for item in last_attempts(iterations):
        groups.setdefault(item.run.name, []).append(item)
    return groups
