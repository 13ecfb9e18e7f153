"""Deriving every metric of a fleet again from its raw totals and its samples."""

from __future__ import annotations

from wattio.kinds.fleet import execute, summary
from wattio.kinds.fleet.folder import FleetFolder
from wattio.results.recompute import Comparison
from wattio.results.runs import WHOLE


def compare(folder: FleetFolder) -> Comparison:
    """Add batches up again from their raw totals, and the fleet from the samples."""
    items = folder.iterations()
    wholes = [item for item in items if item.identity == summary.whole_identity(item.run)]
    found = Comparison()
    for item in items:
        if item not in wholes:
            again = execute.of_batch(folder.read_raw(item.identity))
            found.metrics(item, {WHOLE: again}, "raw totals")
    if wholes:
        derived = summary.derive(folder, {item.run.condition: item.run for item in wholes})
        for item in wholes:
            found.metrics(item, {WHOLE: derived[item.run.condition]}, "samples")
    return found
