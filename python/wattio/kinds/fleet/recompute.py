"""Deriving every metric of a fleet again from its raw totals and its samples."""

from __future__ import annotations

from wattio.kinds.fleet import execute, summary
from wattio.kinds.fleet.folder import FleetFolder
from wattio.results.catalog import Metrics, Recorded
from wattio.results.recompute import Difference, agree


def differences(folder: FleetFolder) -> tuple[int, list[Difference]]:
    """How many metrics were compared, and those that differ by more than 1e-9 of their value.

    Batches are added up from their raw totals, the fleet from the samples.
    """
    items = folder.iterations()
    batches = [item for item in items if item.identity != summary.whole_identity(item.run)]
    wholes = [item for item in items if item.identity == summary.whole_identity(item.run)]
    compared = 0
    found: list[Difference] = []
    for item in batches:
        again = execute.of_batch(folder.read_raw(item.identity))
        compared += _compare(item, again, "raw totals", found)
    if wholes:
        derived = summary.derive(folder, {item.run.label: item.run for item in wholes})
        for item in wholes:
            compared += _compare(item, derived[item.run.label], "samples", found)
    return compared, found


def _compare(item: Recorded, again: Metrics, source: str, found: list[Difference]) -> int:
    names = sorted(item.metrics.keys() | again.keys())
    for name in names:
        recorded, derived = (
            metrics[name][0] if name in metrics else None for metrics in (item.metrics, again)
        )
        if not agree(recorded, derived):
            found.append(Difference(item.run.name, item.seed, name, recorded, derived, source))
    return len(names)
