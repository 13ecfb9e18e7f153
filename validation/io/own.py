"""Our own runs of the mini-app on one machine: some output frequencies predict others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from wattio.errors import ResultError
from wattio.models import calibrate, runs, validate
from wattio.models.calibrate import Calibration
from wattio.models.runs import Run
from wattio.models.validate import Validation

from validation.io.models import FOLDER

PATH = FOLDER / "own-runs.jsonl"
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
        made = calibrate.calibrate(fitted, "one machine")
        checked = validate.validate(made.file.build(), held_out)
        found.append(Own(cells, tuple(fitted), tuple(held_out), made, checked))
    return found


@dataclass(frozen=True)
class Conditions:
    """How the runs were measured, as they tell it: what one thing is for all of them."""

    nodes: int
    cores: int
    core_share: float | None
    compression: str | None
    dumps_in: str | None
    repetitions: tuple[int, int]
    """Of each configuration that writes: the fewest, and the most."""


Value = TypeVar("Value")


def only(values: Iterable[Value], what: str) -> Value:
    """The one value that there is. Raises ResultError where there are several."""
    found = set(values)
    if len(found) != 1:
        raise ResultError(f"our own runs: {len(found)} different {what}")
    return found.pop()


def conditions(own: Sequence[Own], path: Path = PATH) -> Conditions:
    """Those of all runs. Raises ResultError where they differ."""
    told = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    campaigns = [one.get("campaign", {}) for one in told]
    platforms = [one.calibration.file.platform for one in own]
    counts = Counter(
        (str(run.approach), run.cells, run.output_every)
        for one in own
        for run in (*one.fitted, *one.held_out)
        if run.writes
    )
    return Conditions(
        nodes=only((one.nodes for one in platforms), "nodes"),
        cores=only((one.cores_per_node for one in platforms), "ranks of a node"),
        core_share=only((one.get("core_share") for one in told), "shares of a core"),
        compression=only((one.get("compression") for one in campaigns), "compression"),
        dumps_in=only((one.get("dumps_in") for one in campaigns), "places"),
        repetitions=(min(counts.values()), max(counts.values())),
    )


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


def pairs_right(own: Sequence[Own]) -> tuple[int, int]:
    """How many pairs of approaches are predicted in their measured order, and of how many."""
    pairs = [rank.pairs_right for one in own for rank in one.validation.rankings]
    return sum(right for right, _ in pairs), sum(of for _, of in pairs)


def inside(own: Sequence[Own]) -> tuple[int, int]:
    """How many measured times lie within the predicted intervals, and of how many."""
    found = [row.is_inside for one in own for row in one.validation.compared]
    return sum(found), len(found)
