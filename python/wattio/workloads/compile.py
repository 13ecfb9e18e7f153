"""A source tree is copied to the system under test, built there with make, and deleted.

    [[workload]]
    name = "kernel"
    kind = "compile"
    options = { archive = "linux-5.16.tar.xz", configure = ["make", "defconfig"], jobs = 4 }

Three steps, each a phase, as in the thesis (chapters 6.1 and 6.4.3, figure A.7): `cp -r` of a
tree on the client's own disk, `make` in the copy, `rm -rf`. Each client has a copy of its own; a
phase lasts until the last one is done. Without an archive the tree is generated (`source_tree`).
It is made once for each host, beside what is measured, and the copy is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from wattio.clock import Instant, Span
from wattio.errors import ResultError, WorkloadFailed
from wattio.files.document import Strict
from wattio.files.quantity import Size
from wattio.workloads import archive, invocation, processes, source_tree, sources
from wattio.workloads.phases import VARIABLE, Listener, Outcome, Phase, parse, recall
from wattio.workloads.processes import Program
from wattio.workloads.sources import Made, Source
from wattio.workloads.workload import LOCAL, Context, Operation, Place

FOLDER = "wattio-compile"
STEPS = ("copy", "build", "delete")
AT_HOSTS = {"make": "make", "cc": "gcc"}

FILES = 1000
"""Of a generated tree, if nothing else is said."""

_GUESS_FILES_PER_S = (500.0, 1000.0)  # copied, and deleted
_GUESS_OBJECT_S = 0.2
_GUESS_BYTES_PER_S = 100e6
_OBJECTS = source_tree.KINDS.count("c") / len(source_tree.KINDS)
_BLOCK_BYTES = 4096
_NS = 1e9
_MIB = 1 << 20

Words = Annotated[list[str], Field(min_length=1)]


class Options(Strict):
    """The tree, and how it is built; the archive's path is relative to the study."""

    # A tar file with the tree, in any compression that Python reads; without it one is generated.
    archive: str | None = None
    files: int | None = Field(default=None, ge=10, le=1_000_000)  # of a generated tree: 1000
    # What a generated tree has beside its files, as a `.git`: 26 files; none where nothing is said.
    history: Size | None = None
    seed: int = Field(default=1, ge=0, lt=2**63)  # a generated tree depends on it
    configure: Words | None = None  # runs in the copy before make, as ["make", "defconfig"]
    targets: list[str] = Field(default_factory=list)  # of make, and its variables
    jobs: int = Field(default=4, ge=1, le=4096)  # make -j: of each client
    # A phase ends when the copy's file system has all of it on its disks.
    sync: bool = True
    # A folder on the clients' own disks, where the tree is kept: without it the user's cache, and
    # on hosts /var/tmp, which is cleared at the end.
    source_folder: str | None = None

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.archive is not None and (self.files or self.history) is not None:
            raise ValueError("give either archive, or files and history of a generated tree")
        if self.history is not None and self.history < source_tree.HISTORY_LEAST:
            raise ValueError(f"history: at least {source_tree.HISTORY_LEAST} B, or none")
        if self.source_folder is not None and not Path(self.source_folder).is_absolute():
            raise ValueError('source_folder must be absolute, as in "/var/tmp"')
        return self


class Work:
    """The workload with its options."""

    def __init__(self, options: Options, base: Path) -> None:
        """Paths are relative to `base`. Raises InputError where the archive cannot be unpacked."""
        self._options = options
        path = None if options.archive is None else base.resolve() / options.archive
        self._contents = None if path is None else archive.look(path)
        if path is None or self._contents is None:
            self._made = Made(
                files=options.files or FILES,
                seed=options.seed,
                history=round(options.history or 0),
            )
        else:
            self._made = Made(archive=path, sha256=self._contents.sha256)
        self._sources: dict[str, Source] = {}
        self._there: list[int] = []

    def probe(self) -> None:
        """Raise HostError where make or a compiler is missing."""
        for name, package in AT_HOSTS.items():
            processes.find(name, f"apt install {package}")

    def describe(self) -> dict[str, Any]:
        """The options, and this machine's make and compiler; those of hosts are in raw files."""
        return {
            **self._options.model_dump(mode="json", exclude_none=True),
            "files": self._files,
            "make_version": processes.first_line(("make", "--version")),
            "cc_version": processes.first_line(("cc", "--version")),
        }

    @property
    def _files(self) -> int:
        """How many there are in the tree."""
        if self._contents:
            return self._contents.files
        return self._made.files + (source_tree.HISTORY_FILES if self._made.history else 0)

    def steps(self) -> tuple[str, ...]:
        """Copy, build, delete."""
        return STEPS

    def bytes_needed(self, clients: int) -> float:
        """An estimate: the tree's whole blocks, and as much again for what is built from it.

        Nothing is built from a history; that of an archive is not known.
        """
        tree = self._files * (source_tree.MEAN_BYTES + _BLOCK_BYTES / 2)
        of_sources = self._contents.block_bytes if self._contents else tree
        return clients * (2 * of_sources + self._made.history)

    def seconds_guess(self, clients: int) -> float:
        """By files, as many clients as long as one; an archive is taken for a generated tree."""
        moving = sum(self._files / rate for rate in _GUESS_FILES_PER_S)
        moving += clients * self._made.history / _GUESS_BYTES_PER_S
        return moving + self._files * _OBJECTS * _GUESS_OBJECT_S / self._options.jobs

    def prepare(self, context: Context) -> None:
        """See that each host has the tree. Raises WorkloadFailed, Cancelled."""
        context.remove_folders(FOLDER)
        self._sources = sources.keep(self._made, self._options.source_folder, context)
        for number, place in enumerate(context.places):
            context.make_folder(place, _folder(place, number))

    def run(self, step: str, context: Context) -> list[Span]:
        """Run a step in all clients, of which the last one ends the phase. Raises WorkloadFailed.

        What a failed program said last, such as a compiler, is in the error.
        """
        with ExitStack() as listeners:
            programs = [
                self._program(number, step, context, listeners) for number in range(context.clients)
            ]
            ended = processes.run_all(programs, context.cancelled, hosts=context.hosts)
        invocation.keep(context.raw, step, ended, sync=self._options.sync)
        try:
            clients = _clients(context.raw)
        except ResultError as error:
            raise WorkloadFailed(f"compile: {error}") from error
        if step == "build":
            before = [self._sources[place.host].counted.files for place in context.places]
            built = [_outcome(phase).files or 0 for phase in clients]
            self._there = [sum(pair) for pair in zip(before, built, strict=True)]
        return [_whole(clients)]

    def _program(self, number: int, step: str, context: Context, listeners: ExitStack) -> Program:
        """A client's program, which tells its phase to a file."""
        options, place = self._options, context.places[number]
        source = self._sources[place.host]
        task = {
            "step": step,
            "tree": source.tree,
            "source": source.counted.model_dump(),
            "copy": str(_folder(place, number) / "tree"),
            "configure": options.configure,
            "targets": options.targets,
            "jobs": options.jobs,
            "sync": options.sync,
            "there": self._there[number] if self._there else source.counted.files,
        }
        out, err = (context.raw / f"{step}-{number}.{end}" for end in ("out", "err"))
        file = out.with_suffix(".phases")
        program = sources.client(task, place, context, out=out, err=err)
        if place.host != LOCAL:
            return replace(program, phases=file)
        listener = listeners.enter_context(Listener(file))
        told = {VARIABLE: str(listener.write_fd)}
        return replace(program, environment=told, pass_fds=(listener.write_fd,))

    def clean(self, context: Context) -> None:
        """Remove what is left of the copies."""
        context.remove_folders(FOLDER)


def _folder(place: Place, number: int) -> Path:
    """A client's own: places may be of one file system."""
    folder = place.folder / FOLDER / f"client-{number}"
    return folder.resolve() if place.host == LOCAL else folder


def _clients(raw: Path) -> list[Phase]:
    """The phase of each client. Raises ResultError."""
    ran = invocation.recall(raw)
    found = []
    for program in ran.programs:
        told = parse(recall(raw / Path(program.out).with_suffix(".phases").name))
        if [phase.span.name for phase in told] != [ran.step] or len(told[0].outcomes) != 1:
            raise ResultError(f"{raw / program.out}: does not hold one phase with one result")
        found += told
    return found


def _outcome(phase: Phase) -> Outcome:
    return phase.outcomes[0]


def _whole(clients: Sequence[Phase]) -> Span:
    """From the first client's begin to the last one's end, as the thesis takes it."""

    def monotonic(moment: Instant) -> int:
        return moment.monotonic_ns

    start = min((phase.span.start for phase in clients), key=monotonic)
    return Span(
        clients[0].span.name, start, max((phase.span.end for phase in clients), key=monotonic)
    )


def results(raw: Path) -> list[Operation]:
    """The files of all clients over the time of all of them. Raises ResultError."""
    clients = _clients(raw)
    span, outcomes = _whole(clients), [_outcome(phase) for phase in clients]
    seconds = span.seconds if span.seconds > 0 else None
    files = sum(one.files or 0 for one in outcomes)
    moved = sum(one.bytes or 0 for one in outcomes)
    copied = span.name == "copy"
    synced = invocation.recall(raw).facts.get("sync")
    doubt = "ended without sync: part of it may have stayed in memory"
    return [
        Operation(
            operation=span.name,
            phase=span.name,
            seconds=seconds,
            bytes=moved or None,
            files=files,
            throughput_mib_s=moved / _MIB / seconds if seconds and copied else None,
            files_per_s=files / seconds if seconds else None,
            start_utc_ns=span.start.utc_ns,
            end_utc_ns=span.end.utc_ns,
            doubts=() if synced else (doubt,),
        )
    ]
