"""What a model of I/O approaches must beat: a straight line, and always the same approach.

Both know what the model knows of the runs that were fitted to, and none of its equations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wattio.models.approach import Approach
from wattio.models.runs import Run

ALWAYS = Approach("dc", 1)


@dataclass(frozen=True)
class Line:
    """Seconds of a step, and of a dump, of each approach; of so many nodes, ranks and cells."""

    of: Mapping[Approach, tuple[float, float]]
    nodes: int
    cores: int
    cells: int
    profiles: Mapping[tuple[int, int, int], float]

    def time_s(self, run: Run, approach: Approach | None = None) -> float | None:
        """What the line says of a run, or of the same with another approach; None for nothing.

        On another grid, or with other ranks, a step takes as much longer as one without output
        does, and a dump what it takes here: a line knows nothing of bytes.
        """
        found = self.of.get(approach or run.approach)
        here = self.profiles.get((self.nodes, self.cores, self.cells))
        there = self.profiles.get((run.nodes, run.cores, run.cells))
        if found is None:
            return None
        step_s, dump_s = found
        if (run.nodes, run.cores, run.cells) != (self.nodes, self.cores, self.cells):
            if here is None or there is None:
                return None
            step_s *= there / here
        return run.steps * step_s + run.dumps * dump_s


def line(fitted: Sequence[Run]) -> Line | None:
    """Least squares through the runs that were fitted to, of the largest grid and most ranks.

    An approach needs two frequencies of output. None without runs that wrote.
    """
    written = [run for run in fitted if run.writes and run.is_usable]
    if not written:
        return None
    shape = max((run.nodes, run.cores, run.cells) for run in written)
    alike = [run for run in written if (run.nodes, run.cores, run.cells) == shape]
    found = {}
    for approach in {run.approach for run in alike}:
        mine = [run for run in alike if run.approach == approach]
        often = [run.dumps / run.steps for run in mine]
        if len(set(often)) > 1:
            slope, start = np.polyfit(often, [run.time_s / run.steps for run in mine], 1)
            found[approach] = (float(start), float(slope))
    steps: dict[tuple[int, int, int], list[float]] = {}
    for run in fitted:
        if not run.writes and run.is_usable:
            steps.setdefault((run.nodes, run.cores, run.cells), []).append(run.step_s)
    profiles = {key: float(np.median(values)) for key, values in steps.items()}
    return Line(found, *shape, profiles)
