"""Our own runs of the mini-app on one machine: some predict others.

Those have another frequency of output, another grid or another number of ranks.
"""

from __future__ import annotations

import enum
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from wattio.errors import ResultError
from wattio.models import calibrate, runs, validate
from wattio.models.calibrate import Calibration
from wattio.models.runs import Run
from wattio.models.scenario import DISCREPANCY
from wattio.models.validate import Score, Validation

from validation.io.models import FOLDER

PATH = FOLDER / "own-runs.jsonl"
"""What `wattio hpcio run --json` told of each run, in the order of measuring."""


class HeldOut(enum.StrEnum):
    """What sets runs that are predicted apart from those that write and are fitted to."""

    FREQUENCY = "another frequency of output"
    GRID = "another grid"
    RANKS = "another number of ranks"


@dataclass(frozen=True)
class Own:
    """One grid on one number of ranks: a calibration, and what it predicts of runs kept out of it.

    Of another grid, or number of ranks, nothing but steps without output is fitted to.
    """

    by: HeldOut
    cells: int
    ranks: int
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
    """Fit and predict. Raises ResultError for a file that cannot be used.

    A grid has a profile of its own, as the document's application has: at small ones messages
    take longer than computing. Frequencies and grids are those of the most ranks.
    """
    measured = runs.read([path])
    places = sorted({_place(run) for run in measured if run.writes})
    if not places:
        raise ResultError(f"{path}: no run writes")
    largest = [run for run in measured if not run.writes or _place(run) == places[-1]]
    found = []
    for cells in sorted({run.cells for run in largest}):
        fitted, held_out = split([run for run in largest if run.cells == cells])
        made = calibrate.calibrate(fitted, "one machine")
        found.append(_own(HeldOut.FREQUENCY, cells, fitted, held_out, made))
    return found + _other_grids(largest) + _other_ranks(measured, places)


def _place(run: Run) -> tuple[int, int]:
    return run.nodes, run.cores


def _own(
    by: HeldOut,
    cells: int,
    fitted: Sequence[Run],
    held_out: Sequence[Run],
    made: Calibration,
    known: Sequence[Run] | None = None,
) -> Own:
    """`known` is what the baselines are made of, where that is more than was fitted to."""
    checked = validate.validate(made.file.build(), held_out, fitted=known or fitted)
    ranks = only((run.nodes * run.cores for run in held_out), "numbers of ranks")
    return Own(by, cells, ranks, tuple(fitted), tuple(held_out), made, checked)


def _other_grids(measured: Sequence[Run]) -> list[Own]:
    """Each grid predicted from what was written on one other, and from its own steps without.

    By how much the model differs from whole runs is told by those of that other grid.
    """
    found = []
    all_cells = sorted({run.cells for run in measured})
    for source, cells in itertools.permutations(all_cells, 2):
        theirs = [run for run in measured if run.cells == source]
        mine = [run for run in measured if run.cells == cells]
        written = [run for run in theirs if run.writes]
        kept = [run for run in mine if run.writes]
        profile = [run for run in mine if not run.writes]
        numbers = calibrate.calibrate(theirs, "one machine").file.build().parameters
        differing = {one.name: one for one in numbers}.get(DISCREPANCY)
        fitted = [*profile, *written]
        made = calibrate.calibrate(fitted, "one machine", discrepancy=differing)
        found.append(_own(HeldOut.GRID, cells, fitted, kept, made, [*theirs, *profile]))
    return found


def _other_ranks(measured: Sequence[Run], places: Sequence[tuple[int, int]]) -> list[Own]:
    """Each number of ranks predicted from what another one wrote, and from steps without output."""
    found = []
    for cells in sorted({run.cells for run in measured}):
        mine = [run for run in measured if run.cells == cells]
        for source, place in itertools.permutations(places, 2):
            fitted = [run for run in mine if not run.writes or _place(run) == source]
            kept = [run for run in mine if run.writes and _place(run) == place]
            made = calibrate.calibrate(fitted, "one machine")
            found.append(_own(HeldOut.RANKS, cells, fitted, kept, made))
    return found


def scores(own: Sequence[Own], by: HeldOut) -> list[Score]:
    """The model beside its baselines, over what was kept out in one way."""
    return validate.scores(one.validation for one in own if one.by == by)


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
        if one.by == HeldOut.FREQUENCY
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


def inside(own: Sequence[Own]) -> tuple[int, int]:
    """How many measured times lie within the predicted intervals, and of how many."""
    found = [row.is_inside for one in own for row in one.validation.compared]
    return sum(found), len(found)
