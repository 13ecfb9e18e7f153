"""Deriving every metric and verdict of a measurement again from its raw files and samples."""

from __future__ import annotations

from wattio.kinds.measurement.derive import Rulebook
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.rederive import derived
from wattio.results.recompute import Comparison


def compare(folder: MeasurementFolder) -> Comparison:
    """Compare with the catalog, to the last digit. Raises ResultError if something is gone."""
    found = Comparison()
    for item, again in derived(folder, Rulebook.of_folder(folder)):
        found.exactly(item, again.by_phase, again.verdicts, "raw files and power samples")
    return found
