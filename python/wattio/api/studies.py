"""`wattio.run`: a study of any kind, from a program or a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wattio import shipped
from wattio.api import arguments
from wattio.api.results import Result, open_result
from wattio.errors import InputError
from wattio.executors.threads import SimulationExecutor
from wattio.files import document
from wattio.files.document import Document
from wattio.kinds.common import kind_of
from wattio.results.runs import Verdict

Ended = Callable[[str], None]
"""Told the name of each iteration once it is kept."""


def run(
    study: str | os.PathLike[str],
    *,
    results: str | os.PathLike[str] = "results",
    jobs: int | None = None,
    scale: str | None = None,
    meter: str | None = None,
    ended: Ended = lambda _: None,
) -> Result:
    """Run a study into a result folder of its own; return the result.

    `study` is a study file, a folder with a study.toml, or the name of a study that comes with
    wattio, as "quickstart". `results` is the folder in which the result folder is made. `jobs`
    (simulations, fleets) is how many run at a time; `scale` (measurements, fleets) names a table
    `[scale.NAME]` of the study; `meter` (measurements) is a power meter in place of the study's.
    `ended` is told the name of each iteration once it is kept.

    Raises InputError for a study that cannot be used, HostError for what this machine lacks. What
    is done when it is interrupted is kept: `wattio run --resume FOLDER` goes on.
    """
    if jobs is not None and arguments.whole("jobs", jobs) < 1:
        raise InputError(f"jobs={jobs}: must be 1 or more")
    source = document.read(shipped.study_file(arguments.path("study", study)))
    kind = kind_of(source)
    for option, given, kinds in (
        ("scale", scale, ("measurement", "fleet")),
        ("meter", meter, ("measurement",)),
        ("jobs", jobs, ("simulation", "fleet")),
    ):
        if given is not None and kind not in kinds:
            raise InputError(f"{option} is for studies of kind {' or '.join(kinds)}")
    threads = jobs or len(os.sched_getaffinity(0))
    target = Path(arguments.path("results", results))
    if kind == "measurement":
        return open_result(_measured(source, target, scale, meter, ended))
    if kind == "fleet":
        return open_result(_fleet(source, target, scale, threads, ended))
    return open_result(_simulated(source, target, threads, ended))


def _simulated(source: Document, results: Path, threads: int, ended: Ended) -> Path:
    from wattio.kinds.simulation import execute
    from wattio.kinds.simulation.folder import SimulationFolder
    from wattio.simulator.native import NativeSimulator

    simulator = NativeSimulator()
    plan = execute.prepare(source, simulator)
    folder = SimulationFolder.create(plan, results, datetime.now(UTC))
    executor = SimulationExecutor(simulator, threads, _unwatched)
    waiting = folder.remaining(plan)
    execute.execute(waiting, folder, executor, simulator, lambda item: ended(item.name))
    return folder.path


def _fleet(source: Document, results: Path, scale: str | None, threads: int, ended: Ended) -> Path:
    from wattio.kinds.fleet import execute
    from wattio.kinds.fleet import plan as planning
    from wattio.kinds.fleet.folder import FleetFolder

    plan = planning.make(source, scale)
    folder = FleetFolder.create(plan, results, datetime.now(UTC))
    executor = SimulationExecutor(execute.FleetSimulator(), threads, _unwatched)
    execute.execute(folder.remaining(plan), folder, executor, lambda item: ended(item.name))
    return folder.path


def _measured(
    source: Document, results: Path, scale: str | None, meter: str | None, ended: Ended
) -> Path:
    from wattio.kinds.measurement import execute, preflight
    from wattio.kinds.measurement.folder import MeasurementFolder
    from wattio.kinds.measurement.overrides import Asked, located_name

    named = None if meter is None else located_name(meter, Path.cwd())
    plan, _ = preflight.plan_of(source, Asked(scale, named), results)
    preflight.probe(plan, results)
    folder = MeasurementFolder.create(plan, results, datetime.now(UTC))
    execute.execute(plan, folder, folder.path / "scratch", _Progress(ended))
    return folder.path


class _Progress:
    """Passes on which iterations of a measurement have ended."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended

    def begun(self, iteration: Any) -> None:  # noqa: ANN401 (of the kind's own plan)
        """Nothing is said of a beginning."""

    def ended(self, iteration: Any, verdicts: list[Verdict]) -> None:  # noqa: ANN401
        """An iteration is kept."""
        self._ended(iteration.name)

    def said(self, text: str) -> None:
        """What goes on in between is not passed on."""


def _unwatched(iteration: Any, share: float) -> None:  # noqa: ANN401
    """Nobody looks at how far an iteration is."""
