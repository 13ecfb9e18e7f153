"""Deriving every metric of a result again from its raw files and samples."""

from __future__ import annotations

from wattio.kinds.simulation import metrics
from wattio.kinds.simulation.execute import relations
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.results.catalog import Metrics
from wattio.results.recompute import Difference, agree
from wattio.simulator.native import NativeSimulator, Simulator


def differences(
    folder: SimulationFolder, simulator: Simulator | None = None
) -> tuple[int, list[Difference]]:
    """How many metrics were compared, and those that differ by more than 1e-9 of their value.

    Three derivations are compared with the catalog: from the raw summary and the samples, as when
    the run ended; from the windows alone (sums, weighted means, percentiles of the merged
    histograms); and the relation to the native twin.
    """
    compared = 0
    found: list[Difference] = []
    related = relations(folder, simulator or NativeSimulator())
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
                if name in metrics.LATER and name not in item.metrics:
                    continue
                compared += 1
                pair = _value(item.metrics, name), _value(derived, name)
                if not agree(*pair):
                    found.append(Difference(item.run.name, item.seed, name, *pair, source))
    return compared, found


def _value(found: Metrics, name: str) -> float | None:
    return found[name][0] if name in found else None
