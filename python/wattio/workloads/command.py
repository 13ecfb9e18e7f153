"""Any program, once for each client, in the client's folder; phases by lines on a pipe.

A program that tells no phases is one phase from its start to its end. It finds in its environment
WATTIO_FOLDER (the client's folder, which is also where it runs), WATTIO_CLIENT (from 0),
WATTIO_CLIENTS, WATTIO_STUDY (the study's folder; not on other hosts) and WATTIO_PHASES (see
`phases`). A program beside the study goes along to other hosts, by itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from wattio.clock import Instant, Span
from wattio.errors import HostError, ResultError, WorkloadFailed
from wattio.files.document import Strict
from wattio.files.quantity import Seconds
from wattio.workloads import invocation, processes
from wattio.workloads.invocation import ProgramRun
from wattio.workloads.phases import VARIABLE, Listener, Outcome, Phase, parse, recall
from wattio.workloads.processes import Program
from wattio.workloads.workload import LOCAL, Context, Operation

STEP = "run"

_OWN = 'exec "$WATTIO_WORK/$0" "$@"'
OVERLAP_LEAST = 0.9

AT_HOSTS: Mapping[str, str] = {}
"""What is run may come along."""

_MIB = 1 << 20
_NS = 1e9

Words = Annotated[list[str], Field(min_length=1)]


class Options(Strict):
    """The program with its arguments; a path with a slash is relative to the study."""

    run: Words  # the program with its arguments
    prepare: Words | None = None  # runs before anything is measured
    clean: Words | None = None  # runs after all
    guess: Seconds = 60.0  # how long it may take, for the plan


class Work:
    """A program with its options."""

    def __init__(self, options: Options, base: Path) -> None:
        """Paths are relative to `base`, the study's folder."""
        self._options = options
        self._base = base.resolve()

    def probe(self) -> None:
        """Raise HostError where a program is not there or may not be run."""
        for words in (self._options.prepare, self._options.run, self._options.clean):
            if words is not None and shutil.which(self._program(words[0])) is None:
                raise HostError(
                    f'"{words[0]}" is not a program: neither on PATH nor, with a slash in it, an'
                    f" executable file below {self._base}"
                )

    def describe(self) -> dict[str, Any]:
        """The programs as given."""
        return self._options.model_dump(mode="json", exclude_none=True)

    def steps(self) -> tuple[str, ...]:
        """One."""
        return (STEP,)

    def seconds_guess(self, clients: int) -> float:
        """As the study guesses."""
        return self._options.guess

    def prepare(self, context: Context) -> None:
        """Run the program that prepares, if there is one. Raises WorkloadFailed."""
        if self._options.prepare is not None:
            self._start(self._options.prepare, "prepare", context)

    def run(self, step: str, context: Context) -> list[Span]:
        """Run the program in all clients. Raises WorkloadFailed, for senseless phases too.

        A phase of several clients is what they share of it.
        """
        ended = self._start(self._options.run, step, context)
        ran = invocation.keep(context.raw, step, ended)
        try:
            return [one.phase.span for one in _shared(context.raw, ran)]
        except ResultError as error:
            raise WorkloadFailed(f"{Path(self._options.run[0]).name}: {error}") from error

    def clean(self, context: Context) -> None:
        """Run the program that cleans, if there is one. Raises WorkloadFailed."""
        if self._options.clean is not None:
            self._start(self._options.clean, "clean", context)

    def _program(self, word: str) -> str:
        return str(self._base / word) if "/" in word else word

    def _start(self, words: Sequence[str], name: str, context: Context) -> list[processes.Ended]:
        with ExitStack() as listeners:
            programs = [
                self._of_client(number, words, name, context, listeners)
                for number in range(context.clients)
            ]
            return processes.run_all(programs, context.cancelled, hosts=context.hosts)

    def _of_client(
        self, number: int, words: Sequence[str], name: str, context: Context, listeners: ExitStack
    ) -> Program:
        """A client's program; on another host one of the study's own goes along."""
        place = context.places[number]
        file = context.raw / f"{name}-{number}.phases"
        program = Program(
            (self._program(words[0]), *words[1:]),
            context.raw / f"{name}-{number}.out",
            context.raw / f"{name}-{number}.err",
            folder=place.folder,
            environment={
                "WATTIO_FOLDER": str(place.folder),
                "WATTIO_CLIENT": str(number),
                "WATTIO_CLIENTS": str(context.clients),
            },
        )
        if place.host != LOCAL:
            program = replace(program, host=place.host, phases=file)
            if "/" not in words[0] or Path(words[0]).is_absolute():
                return program
            own = Path(program.arguments[0])
            try:
                files = {own.name: own.read_bytes()}
            except OSError as error:
                raise WorkloadFailed(f"{own}: cannot be read: {error.strerror}") from error
            start = ("/bin/sh", "-c", _OWN, own.name)
            return replace(program, arguments=(*start, *words[1:]), files=files)
        listener = listeners.enter_context(Listener(file))
        environment = {
            **program.environment,
            VARIABLE: str(listener.write_fd),
            "WATTIO_FOLDER": str(place.folder.resolve()),
            "WATTIO_STUDY": str(self._base),
        }
        return replace(program, environment=environment, pass_fds=(listener.write_fd,))


def results(raw: Path) -> list[Operation]:
    """The results of all phases, summed over clients. Raises ResultError."""
    found = []
    for one in _shared(raw, invocation.recall(raw)):
        for outcome in one.phase.outcomes or (Outcome(one.phase.span.name),):
            found.append(_operation(one, outcome))
    return found


@dataclass(frozen=True)
class _Shared:
    """A phase as the clients shared it; `seconds` are those from the first begin to the last end.

    In these they did what they tell: their amounts are over all of that time.
    """

    phase: Phase
    seconds: float
    doubts: tuple[str, ...]


def _operation(shared: _Shared, outcome: Outcome) -> Operation:
    span, doubts = shared.phase.span, shared.doubts
    seconds = shared.seconds if shared.seconds > 0 else None
    moved, operations, files = outcome.bytes, outcome.operations, outcome.files
    return Operation(
        operation=outcome.operation,
        phase=span.name,
        seconds=seconds,
        bytes=moved,
        operations=operations,
        throughput_mib_s=moved / _MIB / seconds if seconds and moved is not None else None,
        iops=operations / seconds if seconds and operations is not None else None,
        files=files,
        files_per_s=files / seconds if seconds and files is not None else None,
        latency_us=outcome.latency_us,
        start_utc_ns=span.start.utc_ns,
        end_utc_ns=span.end.utc_ns,
        doubts=doubts,
    )


def _shared(raw: Path, ran: invocation.Invocation) -> list[_Shared]:
    """Each phase with what the clients share of it, and what is doubtful. Raises ResultError."""
    clients = [_phases(raw, ran.step, program) for program in ran.programs]
    names = [phase.span.name for phase in clients[0]]
    for number, phases in enumerate(clients):
        if {phase.span.name for phase in phases} != set(names):
            raise ResultError(f"client {number} reported other phases than client 0")
    by_name = [{phase.span.name: phase for phase in phases} for phases in clients]
    return [_common([phases[name] for phases in by_name]) for name in names]


def _phases(raw: Path, step: str, program: ProgramRun) -> list[Phase]:
    lines = recall(raw / Path(program.out).with_suffix(".phases").name)
    found = parse(lines)
    return found or [Phase(Span(step, program.start, program.end), ())]


def _common(phases: Sequence[Phase]) -> _Shared:
    """From the latest begin to the earliest end; where there is none, the whole."""
    starts = sorted((phase.span.start for phase in phases), key=_monotonic)
    ends = sorted((phase.span.end for phase in phases), key=_monotonic)
    start, end = starts[-1], ends[0]
    whole_ns = ends[-1].monotonic_ns - starts[0].monotonic_ns
    shared_ns = max(0, end.monotonic_ns - start.monotonic_ns)
    doubts: tuple[str, ...] = ()
    if whole_ns > 0 and shared_ns / whole_ns < OVERLAP_LEAST:
        doubts = (
            f"the clients shared only {100 * shared_ns / whole_ns:.0f} % of the phase"
            f" ({100 * OVERLAP_LEAST:.0f} % wanted)",
        )
    if shared_ns == 0:
        start, end = starts[0], ends[-1]
    span = Span(phases[0].span.name, start, end)
    phase = Phase(span, _summed([phase.outcomes for phase in phases]))
    return _Shared(phase, whole_ns / _NS, doubts)


def _summed(clients: Sequence[Sequence[Outcome]]) -> tuple[Outcome, ...]:
    """Outcomes of one operation added up; latencies of several clients cannot be."""
    if len(clients) == 1:
        return tuple(clients[0])
    groups: dict[str, list[Outcome]] = {}
    for outcomes in clients:
        for one in outcomes:
            groups.setdefault(one.operation, []).append(one)
    return tuple(
        Outcome(
            name,
            _sum([one.bytes for one in members]),
            _sum([one.operations for one in members]),
            files=_sum([one.files for one in members]),
        )
        for name, members in groups.items()
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _monotonic(moment: Instant) -> int:
    return moment.monotonic_ns
