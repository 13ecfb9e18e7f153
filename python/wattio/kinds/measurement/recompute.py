"""Deriving every metric and verdict of a measurement again from its raw files and samples."""

from __future__ import annotations

from wattio.kinds.measurement.derive import Rulebook
from wattio.kinds.measurement.execute import derived
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.results.catalog import Recorded
from wattio.results.recompute import Difference

SOURCE = "raw files and power samples"


def differences(folder: MeasurementFolder) -> tuple[int, list[Difference]]:
    """How many metrics and verdicts were compared, and those that are not equal to the last digit.

    Raises ResultError where something that they are derived from is gone.
    """
    book = Rulebook.of_folder(folder)
    compared = 0
    found: list[Difference] = []
    for item, again in derived(folder, book):
        recorded = {name: value for name, (value, _) in item.metrics.items()}
        fresh = {name: value for name, (value, _) in again.metrics.items()}
        recorded |= {f"{v.verdict} {v.reason}": 1.0 for v in item.verdicts}
        fresh |= {f"{v.verdict} {v.reason}": 1.0 for v in again.verdicts}
        names = recorded.keys() | fresh.keys()
        compared += len(names)
        for name in sorted(names):
            pair = recorded.get(name), fresh.get(name)
            if pair[0] != pair[1]:
                found.append(Difference(_named(item), item.seed, name, *pair, SOURCE))
    return compared, found


def _named(item: Recorded) -> str:
    again = f" attempt {item.attempt + 1}" if item.attempt else ""
    return f"{item.run.name} repetition {item.repetition + 1}{again}"
