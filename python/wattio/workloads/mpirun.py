"""Starting an installed MPI benchmark: ranks on the clients' hosts, one path for all of them.

Its phase is its own, without the launcher's start: the lines that it prints come by a pipe and are
stamped as they come (`lines.jsonl`), so that what it says of itself is known to some milliseconds.
"""

from __future__ import annotations

import os
import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import Field

from wattio.clock import Instant, Span
from wattio.errors import HostError, ResultError, WorkloadFailed
from wattio.files.document import Strict
from wattio.files.plain import plain
from wattio.workloads import invocation, mpi_find, phases, processes
from wattio.workloads.launchers import LOCAL, Job
from wattio.workloads.phases import TimedLine
from wattio.workloads.processes import Program
from wattio.workloads.workload import Context, Operation, Place

MISSING = "it is in no package registry; build it from https://github.com/hpc/ior, or use {}"

OUTPUT, ERRORS, LINES = "output.txt", "errors.txt", "lines.jsonl"

UNTOLD_SHARE = 0.1
"""A larger share of a phase in which none of its operations ran is a doubt."""

_LATE_S = 0.02
_LATE_SHARE = 0.02
_NS = 1e9


class LauncherOptions(Strict):
    """`[workload.launcher]`: what starts the ranks, with more options of it."""

    # Its name or path; "mpirun" is whichever belongs to the program's MPI.
    mpirun: str = mpi_find.ANY
    options: list[str] = Field(default_factory=list)  # further options of it
    ranks_per_client: int = Field(default=1, ge=1, le=4096)  # ranks of each client


def by_host(places: Sequence[Place]) -> list[Place]:
    """The places with those of one host side by side, as launchers number ranks by hosts."""
    hosts = list(dict.fromkeys(place.host for place in places))
    return sorted(places, key=lambda place: hosts.index(place.host))


def job(launcher: LauncherOptions, context: Context) -> Job:
    """What is asked of a launcher for all places."""
    places = by_host(context.places)
    names = [place.host for place in places]
    each = {host: names.count(host) * launcher.ranks_per_client for host in dict.fromkeys(names)}
    return Job(
        ranks=len(places) * launcher.ranks_per_client,
        folder=context.raw,
        reach=() if context.hosts is None else context.hosts.access.reach,
        hosts=each if any(host != LOCAL for host in each) else {},
        given=launcher.options,
        here=socket.gethostname().partition(".")[0],
        as_root=os.geteuid() == 0,
    )


@contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """For files of one launcher, until it has ended."""
    with TemporaryDirectory(prefix="wattio-mpi-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def shared_folder(context: Context, program: str) -> Path:
    """The folder of all clients. Raises WorkloadFailed where they have several.

    These benchmarks take one path for all ranks, so clients that mount the system at places of
    their own would all work through the first one's.
    """
    folders = sorted({place.folder for place in context.places})
    if len(folders) > 1:
        shown = ", ".join(map(str, folders[:3]))
        raise WorkloadFailed(
            f"{program} takes one path for all clients, but these have several ({shown}): "
            "use mpi_io and mpi_meta, or hosts with the same mount point"
        )
    return folders[0]


@dataclass(frozen=True)
class StepOutput:
    """What a benchmark said of a step: its phase on our clocks, its operations, its ranks."""

    span: Span
    operations: tuple[Operation, ...]
    ranks: int | None = None


def heard(raw: Path) -> list[TimedLine]:
    """The lines of a step, and when each came; none of steps that ran before they were stamped."""
    file = raw / LINES
    return phases.recall(file) if file.exists() else []


def before(moment: Instant, seconds: float) -> Instant:
    """So much earlier."""
    back = round(seconds * _NS)
    return Instant(moment.utc_ns - back, moment.monotonic_ns - back)


def phase(
    whole: Span, ready: Instant | None, own: Span | None, operations: Sequence[Operation]
) -> tuple[Span, str]:
    """The phase of a step, and what is doubtful about it (nothing: "").

    `whole` is the program from its start to its end; `own` what its lines tell, `ready` when it
    said that it was about to begin. Lines that were held back on their way betray themselves: they
    came closer together than its operations took.
    """
    known = [one.seconds for one in operations if one.seconds is not None]
    work_s = sum(known)
    late_s = _LATE_S + _LATE_SHARE * work_s
    held = (
        own is None
        or ready is None
        or own.start.monotonic_ns < ready.monotonic_ns - late_s * _NS
        or own.seconds < work_s - late_s
    )
    if held or own is None:
        return whole, (
            f"its output does not say when it worked: {plain(work_s)} s lie somewhere within the"
            f" {plain(whole.seconds)} s with its launcher's start, and energy is that of all of it"
        )
    if own.seconds < work_s:
        own = replace(own, start=before(own.end, work_s))
    if len(known) == len(operations) and work_s < (1 - UNTOLD_SHARE) * own.seconds:
        return own, (
            f"its operations took {plain(work_s)} s of the {plain(own.seconds)} s from its first to"
            " its last: energy is that of all of it"
        )
    return own, ""


def placed(operations: Sequence[Operation], span: Span, doubt: str) -> tuple[Operation, ...]:
    """Operations that ran one after another in a phase."""
    found = [
        replace(
            one,
            phase=span.name,
            in_turn=True,
            start_utc_ns=span.start.utc_ns,
            end_utc_ns=span.end.utc_ns,
        )
        for one in operations
    ]
    if doubt and found:
        found[0] = replace(found[0], doubts=(*found[0].doubts, doubt))
    return tuple(found)


class Benchmark(ABC):
    """What installed benchmarks have in common as workloads."""

    program: str
    """The command, as it is found on PATH."""

    title: str
    """Its name, as people write it."""

    instead: str
    """Our workload that does without it."""

    def __init__(self, launcher: LauncherOptions) -> None:
        """Ranks are started by this launcher."""
        self._launcher = launcher

    @property
    def folder(self) -> str:
        """The name of its folder on the system under test."""
        return f"wattio-{self.program}"

    def probe(self) -> None:
        """Raise HostError where the benchmark or the launcher is not on PATH."""
        processes.find(self.program, MISSING.format(self.instead))
        self._found()

    def describe(self) -> dict[str, Any]:
        """The programs, and how the benchmark is called."""
        found = self._found()
        return {
            self.program: shutil.which(self.program),
            "mpirun": found.path,
            "mpirun_version": found.version,
            "launcher": found.kind.NAME,
            "arguments": self._arguments(),
        }

    def prepare(self, context: Context) -> None:
        """Make the folder."""
        shared_folder(context, self.title)
        context.make_folders(self.folder)

    def run(self, step: str, context: Context) -> list[Span]:
        """Run one step; the phase is the benchmark's own work. Raises WorkloadFailed."""
        words = [self.program, *self._arguments(), *self._of_step(step, context)]
        try:
            self._start(step, words, context)
        except WorkloadFailed as failed:
            output = processes.text(context.raw / OUTPUT)
            if (words_of_its_own := self.failure(output)) is None:
                raise
            raise WorkloadFailed(f"{self.program}: {words_of_its_own}") from failed
        if (wrong := self.failure(processes.text(context.raw / OUTPUT))) is not None:
            raise WorkloadFailed(f"{self.program}: {wrong}")
        try:
            told = self.read(context.raw)
        except ResultError as error:
            said = processes.last_words(context.raw / ERRORS, context.raw / OUTPUT)
            raise WorkloadFailed(f"{self.program}: {error}: {said}") from error
        asked = context.clients * self._launcher.ranks_per_client
        if told.ranks is not None and told.ranks != asked:
            raise WorkloadFailed(
                f"{self.title} ran on {told.ranks} ranks instead of {asked}: is"
                f" {self._found().path} the launcher of the MPI that it was built with?"
            )
        return [told.span]

    def clean(self, context: Context) -> None:
        """Remove the folder."""
        context.remove_folders(self.folder)

    @abstractmethod
    def _arguments(self) -> list[str]:
        """What the benchmark is called with in all of its steps."""

    @abstractmethod
    def _of_step(self, step: str, context: Context) -> list[str]:
        """What it is called with in one step."""

    @staticmethod
    @abstractmethod
    def failure(output: str) -> str | None:
        """Its own words for what went wrong, whatever its exit code was."""

    @staticmethod
    @abstractmethod
    def read(raw: Path) -> StepOutput:
        """What it said of a step. Raises ResultError."""

    def _target(self, context: Context) -> Path:
        return shared_folder(context, self.title) / self.folder

    def _found(self) -> mpi_find.Found:
        """The launcher. Raises HostError where there is none."""
        name = self._launcher.mpirun
        found = mpi_find.named(name, mpi_find.libraries(self.program))
        if found is None:
            raise HostError(f"{name} is not installed (not on PATH): {mpi_find.KNOWN[0].GET}")
        return found

    def _start(self, step: str, words: Sequence[str], context: Context) -> None:
        """Run it on all ranks; its output goes to `output.txt`. Raises WorkloadFailed."""
        try:
            found = self._found()
        except HostError as error:
            raise WorkloadFailed(str(error)) from error
        asked = job(self._launcher, context)
        out = context.raw / OUTPUT
        with phases.Listener(context.raw / LINES, copy=out) as listener, folder_of_its_own() as own:
            program = Program(
                (found.path, *found.kind.arguments(asked), *words),
                out,
                context.raw / ERRORS,
                environment={
                    **found.kind.environment(asked),
                    **({} if asked.hosts else found.kind.keeps_in(own)),
                },
                out_fd=listener.write_fd,
            )
            ended = processes.run_all([program], context.cancelled)
        invocation.keep(context.raw, step, ended)
