"""Deriving every metric of a simulation again from its raw files and samples."""

from __future__ import annotations

from wattio.kinds.simulation import metrics
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.twins import relations
from wattio.results.recompute import Comparison
from wattio.results.runs import WHOLE, Metrics
from wattio.simulator.native import NativeSimulator, Simulator


def compare(folder: SimulationFolder, simulator: Simulator | None = None) -> Comparison:
    """Compare three derivations with the catalog. Raises ResultError.

    From the raw summary and the samples, with the relation to the native twin, as when the run
    ended; from the windows alone (sums, weighted means, percentiles of the merged histograms); and
    the sum of the components.
    """
    found = Comparison()
    related = relations(folder, simulator or NativeSimulator())
    for item in folder.iterations():
        outcome = folder.read_outcome(item)
        again = metrics.of_outcome(outcome) | related.get(item.identity, {})
        parts_j = [again.get(f"energy_{part}_j", (0.0, "J"))[0] for part in metrics.COMPONENTS]
        summed: Metrics = {"energy_j": (sum(parts_j), "J")}
        found.metrics(item, {WHOLE: again}, "raw summary and samples")
        found.metrics(item, {WHOLE: metrics.from_windows(outcome)}, "windows", part=True)
        found.metrics(item, {WHOLE: summed}, "sum of the components", part=True)
    return found
