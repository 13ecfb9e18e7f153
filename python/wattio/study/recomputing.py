"""Deriving every metric of a result again from its raw files and samples."""

from __future__ import annotations

from dataclasses import dataclass

from wattio.analysis import energy
from wattio.study import metrics
from wattio.study.catalog import Metrics
from wattio.study.result import ResultFolder
from wattio.study.running import relations
from wattio.study.simulator import Simulator


@dataclass(frozen=True)
class Difference:
    """A metric whose two derivations do not agree; None where one of them lacks it."""

    run: str
    seed: int
    metric: str
    recorded: float | None
    derived: float | None
    source: str


def differences(folder: ResultFolder, simulator: Simulator) -> tuple[int, list[Difference]]:
    """How many metrics were compared, and those that differ by more than 1e-9 of their value.

    Three derivations are compared with the catalog: from the raw summary and the samples, as when
    the run ended; from the windows alone (sums, weighted means, percentiles of the merged
    histograms); and the relation to the native twin.
    """
    compared = 0
    found: list[Difference] = []
    related = relations(folder, simulator)
    for item in folder.iterations():
        outcome = folder.read_outcome(item)
        again = metrics.of_outcome(outcome) | related.get(item.identity, {})
        windowed = metrics.from_windows(outcome)
        parts = {c: again.get(f"energy_{c}_j", (0.0, "J"))[0] for c in metrics.COMPONENTS}
        windowed_sum: Metrics = {"energy_j": (sum(parts.values()), "J")}
        sources = (
            ("raw summary and samples", again, item.metrics.keys() | again.keys()),
            ("windows", windowed, windowed.keys()),
            ("sum of the components", windowed_sum, windowed_sum.keys()),
        )
        for source, derived, names in sources:
            for name in sorted(names):
                compared += 1
                pair = _value(item.metrics, name), _value(derived, name)
                if not agree(*pair):
                    found.append(Difference(item.run.name, item.seed, name, *pair, source))
    return compared, found


def _value(found: Metrics, name: str) -> float | None:
    return found[name][0] if name in found else None


def agree(recorded: float | None, derived: float | None) -> bool:
    """Whether two derivations of a metric agree within rounding."""
    if recorded is None or derived is None:
        return recorded is derived
    return energy.balance_error(recorded, {"derived": derived}) <= metrics.BALANCE_LIMIT
