"""Our own runs of the mini-app on one machine: some output frequencies predict others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from wattio.models import calibrating, runs, validating
from wattio.models.calibrating import Calibration
from wattio.models.runs import Run
from wattio.models.validating import Validation

PATH = Path(__file__).parents[1] / "studies" / "io-approaches" / "own-runs.jsonl"
"""What `wattio hpcio run --json` told of each run, in the order of measuring."""


@dataclass(frozen=True)
class Own:
    """One size: the calibration from some frequencies of output, and what it predicts of others."""

    cells: int
    fitted: tuple[Run, ...]
    held_out: tuple[Run, ...]
    calibration: Calibration
    validation: Validation


def split(measured: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Runs to fit to, and runs to keep out: every second frequency of output, from the first on.

    Runs without output are fitted to.
    """
    everys = sorted({run.output_every for run in measured if run.writes})
    kept_out = set(everys[::2])
    held_out = [run for run in measured if run.writes and run.output_every in kept_out]
    return [run for run in measured if run not in held_out], held_out


def evaluate(path: Path = PATH) -> list[Own]:
    """Fit and predict each size. Raises ResultError for a file that cannot be used.

    A size has a profile of its own, as the document's application has: at small ones messages
    take longer than computing.
    """
    measured = runs.read([path])
    found = []
    for cells in sorted({run.cells for run in measured}):
        fitted, held_out = split([run for run in measured if run.cells == cells])
        made = calibrating.calibrate(fitted, "one machine")
        checked = validating.validate(made.file.build(), held_out)
        found.append(Own(cells, tuple(fitted), tuple(held_out), made, checked))
    return found


def median_error(own: Sequence[Own]) -> float:
    """Median of the sizes of all deviations."""
    return median(abs(row.deviation) for one in own for row in one.validation.compared)


def worst_error(own: Sequence[Own]) -> float:
    """The largest size of a deviation."""
    return max(abs(row.deviation) for one in own for row in one.validation.compared)


def first_places(own: Sequence[Own]) -> tuple[int, int]:
    """How often the predicted first place is the measured one, and of how many."""
    ranks = [rank for one in own for rank in one.validation.rankings]
    return sum(rank.measured[0] == rank.predicted[0] for rank in ranks), len(ranks)
