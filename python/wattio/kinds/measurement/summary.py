"""The summary of a measurement: each run over its repetitions, phase by phase; from the catalog.

Means are over VALID and WARN iterations, INVALID ones are counted and never averaged. Of several
attempts at one repetition, the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wattio.analysis import efficiency, statistics
from wattio.analysis.statistics import Interval
from wattio.kinds.measurement.metrics import by_phase
from wattio.results.catalog import Metrics, Recorded
from wattio.results.runs import Run

SEED = 1
"""Seed of every bootstrap: the same result always shows the same interval."""

EQUAL_WORK = 1e-6
"""Largest relative difference between amounts of work that count as equal."""


@dataclass(frozen=True)
class Estimate:
    """A metric over repetitions. `deviation` and `interval` need two of them."""

    unit: str
    values: tuple[float, ...]
    mean: float
    deviation: float | None
    interval: Interval | None

    @property
    def n(self) -> int:
        """How many repetitions it is over."""
        return len(self.values)


@dataclass(frozen=True)
class PhaseRow:
    """One phase of one run over its repetitions."""

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
        """A metric, measured or else estimated; None where no iteration gave it."""
        return self.metrics.get(name) or self.metrics.get(f"estimated_{name}")

    def is_estimated(self, name: str) -> bool:
        """Whether a metric is there as an estimate only."""
        return name not in self.metrics and f"estimated_{name}" in self.metrics


def rows(iterations: Sequence[Recorded]) -> list[PhaseRow]:
    """One row for each phase of each run, in the order of the plan."""
    found = []
    for group in _by_run(iterations).values():
        used = [item for item in group if item.usable]
        warned = sum(any(v.verdict == "WARN" for v in item.verdicts) for item in used)
        counts = (len(used) - warned, warned, len(group) - len(used))
        phases = [by_phase(item.metrics) for item in used]
        names = dict.fromkeys(name for item in group for name in by_phase(item.metrics))
        for phase in names:
            parts = [part[phase] for part in phases if phase in part]
            found.append(PhaseRow(group[0].run, phase, *counts, _estimates(parts)))
        if not names:
            found.append(PhaseRow(group[0].run, "", *counts, {}))
    return found


def last_attempts(iterations: Iterable[Recorded]) -> list[Recorded]:
    """Of several attempts at one repetition, the last one."""
    found: dict[tuple[str, int], Recorded] = {}
    for item in iterations:
        key = item.run.name, item.repetition
        if key not in found or item.attempt > found[key].attempt:
            found[key] = item
    return list(found.values())


def normalised_edp(among: Sequence[PhaseRow], weight: int, net: bool = False) -> dict[str, float]:
    """Energy-delay products divided by the least one, by run, over rows of equal work.

    Empty where the rows did not do the same work, or one has no product: a comparison would be
    meaningless. Source: the thesis, equation 6.1, and its section 6.3.
    """
    name = f"edp_w{weight}{'_net' if net else ''}"
    products = [row.get(name) for row in among]
    if not among or any(product is None for product in products) or not equal_work(among):
        return {}
    least = efficiency.normalised_to_least([p.mean for p in products if p is not None])
    return {row.run.name: value for row, value in zip(among, least, strict=True)}


def equal_work(among: Sequence[PhaseRow]) -> bool:
    """Whether every row moved the same bytes, or did the same number of operations."""
    for name in ("bytes", "operations"):
        amounts = [row.metrics.get(name) for row in among]
        means = [amount.mean for amount in amounts if amount is not None]
        if len(means) == len(among) and max(means) > 0:
            return (max(means) - min(means)) / max(means) <= EQUAL_WORK
    return False


def _by_run(iterations: Sequence[Recorded]) -> dict[str, list[Recorded]]:
    groups: dict[str, list[Recorded]] = {}
    for item in last_attempts(iterations):
        groups.setdefault(item.run.name, []).append(item)
    return groups


def _estimates(parts: Sequence[Metrics]) -> dict[str, Estimate]:
    found = {}
    for name in sorted({name for part in parts for name in part}):
        values = tuple(part[name][0] for part in parts if name in part)
        unit = next(part[name][1] for part in parts if name in part)
        interval = statistics.bootstrap_mean(values, seed=SEED) if len(values) > 1 else None
        mean = sum(values) / len(values)
        found[name] = Estimate(unit, values, mean, statistics.sample_deviation(values), interval)
    return found
