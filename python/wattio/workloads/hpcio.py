"""A simulation in MPI that writes dumps through wattio's I/O middleware: one step, one phase.

    [[workload]]
    name = "dc1-every10"
    kind = "hpcio"
    options = { approach = "dc:1", ranks = 8, ranks_per_node = 4, output_every = 10 }

The application is `wattio.miniapp`, the middleware `wattio.hpcio`; a matrix of approaches, output
frequencies and sizes is a study with an entry for each. Ranks are over all clients. The phase lasts
from the first step until the last dump is written; its operations are dumps, and their latency is
how long a computing rank was blocked by one. Without output they are steps, and how long they took.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    field_validator,
    model_validator,
)

from wattio.analysis.cores import Ticks
from wattio.clock import Span
from wattio.errors import HostError, InputError, ResultError, WorkloadFailed
from wattio.files.document import Strict, nearest
from wattio.hpcio import library, topology
from wattio.hpcio.config import Buffer, Config, WhenFull, parse_approach
from wattio.hpcio.topology import Topology
from wattio.miniapp.domain import SIZES, VARIABLES, Scaling, arrange, block_of, scaled
from wattio.workloads import (
    hpcio_output,
    hpcio_twins,
    invocation,
    mpi_launch,
    mpirun,
    processes,
    slow_cores,
)
from wattio.workloads.hpcio_output import RUN, Report
from wattio.workloads.hpcio_twins import Language
from wattio.workloads.mpi_launch import RankOptions
from wattio.workloads.processes import Program
from wattio.workloads.ranks import boot
from wattio.workloads.workload import LOCAL, Context, Operation

FOLDER = "wattio-hpcio"
AT_HOSTS: Mapping[str, str] = {}
CONFIG = "hpcio.toml"
"""The middleware's configuration of a run, among what is kept of it."""

_ALONE = {"grace": "0 s", "fields": False}
"""Of the middleware: a run that is stopped leaves nobody who writes, and nobody reads its dumps."""

_MIB = 1 << 20
_GUESS_S_PER_CELL = 0.5e-6
_GUESS_BYTES_PER_S = 100e6


def _read_share(value: object) -> float:
    try:
        return slow_cores.parse(value)
    except InputError as error:
        raise ValueError(str(error)) from None


CoreShare = Annotated[
    float,
    BeforeValidator(_read_share),
    PlainSerializer(lambda share: f"{100 * share:.6g} %", return_type=str),
]
"""A share of a core, as "20 %"."""


class Options(Strict):
    """The approach, the application, and the middleware's own options.

    With `core_share` emulated nodes do not take processor time from each other.
    """

    language: Language = "python"  # of the ranks: "python", "c" or "fortran"
    # "tp" (all ranks write), "dc:N" (N dedicated cores), "dn:R" (a node for R).
    approach: str = "tp"
    ranks: int = Field(default=2, ge=1, le=1_000_000)  # over all clients
    # Nodes are emulated, of so many ranks; without it a host is a node.
    ranks_per_node: int | None = Field(default=None, ge=1, le=4096)
    # Each rank has a slow core of its own: so much of one, as "20 %".
    core_share: CoreShare | None = None
    steps: int = Field(default=120, ge=1, le=10_000_000)  # of the simulation
    output_every: int = Field(default=10, ge=0)  # steps between dumps; 0 writes nothing
    size: str = "small"  # of the domain: "tiny", "small", "medium", "large", "document"
    # Whether `size` is all of it (strong) or the part of one rank (weak).
    scaling: Scaling = "strong"
    variables: list[str] = Field(default=list(VARIABLES), min_length=1)  # what a dump holds
    buffer: Buffer = 256.0 * _MIB  # memory of each node for dumps that are not yet written
    when_full: WhenFull = "block"  # what happens to a dump that finds no room in it
    compression: str = "none"  # "none", or "gzip:1" to "gzip:9"
    checksum: bool = True  # CRC-32 of each block
    # Bring dumps to the disk before they count as written.
    sync: bool = True
    launcher: RankOptions = RankOptions()

    @field_validator("size")
    @classmethod
    def _known_size(cls, size: str) -> str:
        if size not in SIZES:
            raise ValueError(f'"{size}" is not known; {nearest(size, list(SIZES))}')
        return size

    @field_validator("variables")
    @classmethod
    def _known_variables(cls, variables: list[str]) -> list[str]:
        for name in variables:
            if name not in VARIABLES:
                raise ValueError(f'"{name}" is not known; {nearest(name, VARIABLES)}')
            if variables.count(name) > 1:
                raise ValueError(f'"{name}" is named twice')
        return variables

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.launcher.ranks_per_client != 1:
            raise ValueError("ranks are over all clients: give ranks, not ranks_per_client")
        if self.language != "python" and self.core_share is not None:
            raise ValueError('core_share is only for ranks of language = "python"')
        if self.output_every > self.steps:
            raise ValueError(
                f"output_every: is {self.output_every}, but there are {self.steps} steps;"
                f" allowed: 1 to {self.steps}, or 0 for no output"
            )
        try:
            self._check_ranks()
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def _check_ranks(self) -> None:
        # Without emulation, how many hosts there are is known at the start only.
        alone = self.ranks_per_node is None
        if alone and self.approach != "tp":
            self.config(Path())
            return
        self.roles(topology.emulated(self.ranks, self.ranks_per_node or self.ranks))

    def roles(self, nodes: Sequence[int]) -> Topology:
        """Who computes and who writes, `nodes` being the node of each rank.

        Raises InputError if the nodes do not fit the approach, or the ranks that compute the grid.
        """
        found = topology.plan(self.config(Path()), nodes)
        arrangement = arrange(len(found.computing))
        block_of(scaled(SIZES[self.size], self.scaling, arrangement), arrangement, 0)
        return found

    def config(self, output: Path) -> Config:
        """The middleware's configuration. Raises InputError."""
        given = self.model_dump(
            mode="json",
            include={
                *("ranks_per_node", "buffer", "when_full"),
                *("compression", "checksum", "sync"),
            },
        )
        try:
            return Config.model_validate(
                {**given, **_ALONE, **parse_approach(self.approach), "output": output}
            )
        except ValidationError as error:
            first = error.errors()[0]
            told = first.get("ctx", {}).get("error", first["msg"])
            raise InputError(str(told)) from None

    def plan(self) -> dict[str, Any]:
        """The application's part, as `wattio.miniapp.loop.Plan` takes it."""
        return self.model_dump(include={"size", "steps", "output_every", "scaling", "variables"})


class Work:
    """The workload with its options."""

    def __init__(self, options: Options, base: Path) -> None:
        """There are no files beside the study: `base` is not looked at."""
        self._options = options

    def probe(self) -> None:
        """Raise HostError where mpi4py, the launcher or control groups are missing."""
        if self._options.language == "python":
            mpi_launch.probe(self._options.launcher)
        else:
            hpcio_twins.built(self._options.language, self._options.launcher)
        if self._options.core_share is not None:
            slow_cores.probe(self._options.core_share, self._options.ranks)

    def describe(self) -> dict[str, Any]:
        """The options, the size of a dump, and the launcher."""
        options = self._options.model_dump(mode="json", exclude={"launcher"}, exclude_none=True)
        launcher = mpi_launch.describe(self._options.launcher)
        del launcher["ranks_per_client"]
        return {**options, **launcher}

    def steps(self) -> tuple[str, ...]:
        """One."""
        return (RUN,)

    def bytes_needed(self, clients: int) -> float:
        """All dumps, before compression; of weak scaling a part for each rank."""
        options = self._options
        if options.compression != "none":
            return 0.0
        dumps = options.steps // options.output_every if options.output_every else 0
        return dumps * self._parts() * SIZES[options.size].dump_bytes(len(options.variables))

    def _parts(self) -> int:
        return self._options.ranks if self._options.scaling == "weak" else 1

    def seconds_guess(self, clients: int) -> float:
        """By cells, with as many cores to a client as here, and by bytes at 100 MB/s."""
        options = self._options
        domain, parts = SIZES[options.size], self._parts()
        dumps = options.steps // options.output_every if options.output_every else 0
        written = dumps * parts * domain.dump_bytes(len(options.variables))
        cores = min(options.ranks * (options.core_share or 1.0), clients * (os.cpu_count() or 1))
        computing_s = options.steps * parts * domain.cells * _GUESS_S_PER_CELL / cores
        return computing_s + written / _GUESS_BYTES_PER_S + mpi_launch.START_GUESS_S

    def prepare(self, context: Context) -> None:
        """Remove what an earlier run may have left; the middleware makes its folder itself."""
        self.clean(context)

    def run(self, step: str, context: Context) -> list[Span]:
        """Run it. Raises WorkloadFailed, also where a dump could not be written."""
        folder = mpirun.shared_folder(context, "hpcio") / FOLDER
        report = launch(self._options, folder, context)
        if errors := report.errors():
            raise WorkloadFailed(f"{step}: {mpi_launch.first_of(errors)}")
        return [report.span(boot(), invocation.recall(context.raw).clocks)]

    def clean(self, context: Context) -> None:
        """Remove the dumps, where the clients are. Raises WorkloadFailed if paths differ."""
        mpirun.shared_folder(context, "hpcio")
        context.remove_folders(FOLDER)


def refused_at_hosts(options: Options) -> str | None:
    """Which option keeps the ranks on this machine, and why; None if they can run on others."""
    if options.language != "python":
        return f'language = "{options.language}" is only for ranks on this machine'
    if options.core_share is not None:
        return "core_share is only for ranks on this machine"
    return None


def launch(options: Options, folder: Path, context: Context) -> Report:
    """Run the ranks with their dumps in a folder. Raises WorkloadFailed and Cancelled."""
    there = {place.host for place in context.places} - {LOCAL}
    if there and (refused := refused_at_hosts(options)):
        raise WorkloadFailed(f"{refused}, but clients are on {min(there)}")
    if options.ranks % context.clients:
        raise WorkloadFailed(
            f"{options.ranks} ranks do not divide evenly among {context.clients} clients"
        )
    each = {"ranks_per_client": options.ranks // context.clients}
    launcher = options.launcher.model_copy(update=each)
    config = options.config(folder)
    try:
        if options.language != "python":
            program = _launch_twin(options, config, launcher, context)
        else:
            given = config.model_dump(mode="json", exclude_none=True)
            task = {"config": given, "plan": options.plan()}
            with _slow_cores(options, context) as groups:
                program = mpi_launch.launch(RUN, "hpcio", {**task, **groups}, launcher, context)
    except WorkloadFailed as failed:
        if found := hpcio_output.reasons(processes.text(context.raw / mpi_launch.ERRORS)):
            raise WorkloadFailed(f"{RUN}: {mpi_launch.first_of(found)}") from failed
        raise
    try:
        return hpcio_output.read(program.out)
    except ResultError as error:
        raise WorkloadFailed(f"{RUN}: {error}") from error


def _launch_twin(
    options: Options, config: Config, launcher: RankOptions, context: Context
) -> Program:
    """Run the mini-app's twin in another language; what it is told comes back with its report."""
    try:
        found, program = hpcio_twins.built(options.language, launcher)
    except HostError as error:
        raise WorkloadFailed(f"{RUN}: {error}") from error
    per_node = options.ranks_per_node or options.ranks
    computing = options.roles(topology.emulated(options.ranks, per_node)).computing
    domain = scaled(SIZES[options.size], options.scaling, arrange(len(computing)))
    file = context.raw / CONFIG
    file.write_text(config.text(library.hdf5()), encoding="utf-8")
    told = {
        "plan": options.plan(),
        "domain": asdict(domain),
        "dump_bytes": domain.dump_bytes(len(options.variables)),
        "ranks_per_node": options.ranks_per_node,
        "synced": config.sync,
    }
    grid = (domain.nx, domain.ny, domain.nz, domain.spacing_m, options.steps, options.output_every)
    words = (str(program), str(file.absolute()), *map(str, grid), ",".join(options.variables))
    return mpi_launch.launch_program(RUN, (*words, json.dumps(told)), found, launcher, context)


@contextlib.contextmanager
def _slow_cores(options: Options, context: Context) -> Iterator[dict[str, Any]]:
    """What the ranks' task says of their slow cores, which are there while entered."""
    if options.core_share is None:
        yield {}
        return
    try:
        with slow_cores.made(options.core_share, options.ranks) as folder:
            yield {"slow_cores": str(folder), "core_share": options.core_share}
    except HostError as error:
        # It was probed; what is missing now has gone since.
        raise WorkloadFailed(f"{RUN}: {error}") from error


def results(raw: Path) -> list[Operation]:
    """The dumps of a run. Raises ResultError."""
    report = hpcio_output.read(raw / mpi_launch.OUTPUT)
    return [operation(report.placed(invocation.recall(raw).clocks))]


def ticks(raw: Path) -> dict[str, tuple[dict[int, Ticks], dict[int, Ticks]]]:
    """Ticks of this machine's cores at both ends of the run; none where ranks ran on others."""
    here = mpi_launch.boot_of(invocation.recall(raw))
    known = hpcio_output.read(raw / mpi_launch.OUTPUT).core_ticks(here)
    return {} if known is None else {RUN: known}


def operation(report: Report) -> Operation:
    """A run as a normalised result: its dumps, and how long they blocked a computing rank.

    A run that writes nothing is its steps, and how long they took.
    """
    seconds, moved = report.seconds, report.account.bytes
    name, count, spread = "dump", report.dumps_whole, report.blocked_s
    if not report.plan.output_every:
        name, count, spread = "step", report.plan.steps, report.step_s
    return Operation(
        operation=name,
        phase=RUN,
        seconds=seconds,
        bytes=moved or None,
        operations=count,
        throughput_mib_s=moved / _MIB / seconds if moved and seconds > 0 else None,
        iops=count / seconds if seconds > 0 else None,
        latency_us={
            name: value * 1e6 for name, value in spread.model_dump(exclude_none=True).items()
        },
        start_utc_ns=report.start[0],
        end_utc_ns=report.end[0],
        doubts=tuple(doubts(report)),
    )


def doubts(report: Report) -> list[str]:
    """What is known to be doubtful about a run."""
    found = []
    account = report.account
    if account.drops:
        found.append(f"{account.drops} of {report.dumps} dumps were dropped: the buffer was full")
    if account.dumps != report.dumps:
        found.append(f"{account.dumps} dumps instead of {report.dumps}")
    if not report.synced and report.dumps:
        found.append("written without sync: part of it may have stayed in memory")
    return found
