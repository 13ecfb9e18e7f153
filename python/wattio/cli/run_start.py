"""Beginning a study of any kind, or going on in a folder, and saying where its result is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console

from wattio.errors import Cancelled, InputError
from wattio.executors.threads import Executor, Simulating, SimulationExecutor, Watch
from wattio.files.document import Document
from wattio.results.folder import ResultFolder
from wattio.results.plan import Plan

F = TypeVar("F", bound=ResultFolder)
P = TypeVar("P", bound=Plan)


@dataclass(frozen=True)
class Start(Generic[F, P]):
    """A study to begin, or a folder to go on in, as the command line names them.

    `make` plans a study, `again` the one of a folder; `refuse` raises InputError if a folder was
    begun otherwise than it is asked for now.
    """

    source: Document | None
    resume: Path | None
    results: Path
    kind: type[F]
    make: Callable[[Document], P]
    again: Callable[[F], P]
    refuse: Callable[[F], None] = lambda _: None

    def plan(self) -> tuple[P, F | None]:
        """The plan, and the folder that was begun; nothing is made. InputError, ResultError."""
        if self.resume is not None:
            folder = self.kind(self.resume)
            given = self.source and folder.as_begun(self.source.text)
            if self.source is not None and given != folder.study_text():
                raise InputError(
                    f"{self.source.path}: is not the study that {folder.path} was started with"
                )
            self.refuse(folder)
            return self.again(folder), folder
        if self.source is None:
            raise InputError("wattio run needs a study file, or --resume with a result folder")
        return self.make(self.source), None

    def begin(self, before: Callable[[P], None] = lambda _: None) -> tuple[F, P]:
        """The folder to work in, new or resumed, and the plan; `before` a new one is made."""
        plan, folder = self.plan()
        if folder is None:
            before(plan)
            folder = self.kind.create(plan, self.results, datetime.now(UTC))
        return folder, plan


JOBS_MOST = 1024
"""More threads than any machine has cores for."""


def jobs_of(given: int | None) -> int:
    """How many simulations run at a time. Raises InputError for what cannot be."""
    if given is not None and not 1 <= given <= JOBS_MOST:
        raise InputError(f"--jobs {given}: allowed is 1 to {JOBS_MOST}, as each is a thread")
    return given or len(os.sched_getaffinity(0))


def executor_of(
    simulator: Simulating,
    simulate: Callable[[Any], Any],
    jobs: int,
    engine: str | None,
    watch: Watch,
) -> Executor:
    """Threads of this process, or a cluster, whose workers call `simulate`."""
    if engine is None:
        return SimulationExecutor(simulator, jobs, watch)
    from wattio.executors.cluster import ClusterExecutor

    return ClusterExecutor(engine, jobs, watch, simulate)


def reported(folder: ResultFolder, wanted: bool) -> Path | None:
    """The page of a result, made if it is wanted. Raises Cancelled on Ctrl-C."""
    if not wanted:
        return None
    try:
        from wattio.report import make

        return make(folder.path)
    except KeyboardInterrupt:
        raise Cancelled(
            f"stopped; only the report is missing: wattio report {folder.path}"
        ) from None


def head_json(folder: ResultFolder, page: Path | None) -> dict[str, Any]:
    """What the JSON of every kind of result begins with."""
    return {
        "result": str(folder.path),
        "report": str(page) if page else None,
        "complete": folder.complete(),
    }


def say_where(console: Console, folder: ResultFolder, page: Path | None) -> None:
    """The last lines of every run."""
    for name, path in (("result", folder.path), ("report", page)):
        if path:
            console.print(f"{name}: {path}", markup=False, highlight=False, soft_wrap=True)
