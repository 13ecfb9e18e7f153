"""Deriving every metric of a simulation again from its raw files and samples."""

from __future__ import annotations

from wattio.kinds.simulation import metrics
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.twins import relations
from wattio.results.recompute import Comparison
from wattio.results.runs import WHOLE, Metrics, Recorded
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
        again = _known(item, metrics.of_outcome(outcome) | related.get(item.identity, {}))
        parts_j = [again.get(f"energy_{part}_j", (0.0, "J"))[0] for part in metrics.COMPONENTS]
        summed: Metrics = {"energy_j": (sum(parts_j), "J")}
        found.metrics(item, {WHOLE: again}, "raw summary and samples")
        windowed = _known(item, metrics.from_windows(outcome))
        found.metrics(item, {WHOLE: windowed}, "windows", part=True)
        found.metrics(item, {WHOLE: summed}, "sum of the components", part=True)
    return found


def _known(item: Recorded, derived: Metrics) -> Metrics:
    """Without those that a catalog of an earlier version cannot have."""
    missing = [name for name in metrics.LATER if name not in item.metrics]
    return {name: value for name, value in derived.items() if name not in missing}
