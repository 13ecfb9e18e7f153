"""Large transfers by MPI ranks, with IOR's semantics: write and read, each a launch of its own.

    [[workload]]
    name = "posix"
    kind = "mpi_io"
    options = { api = "posix", total = "36 GiB", transfer = "4 MiB" }

`posix` gives each rank a file of its own, `mpiio` all ranks one file (independent calls of MPI-IO),
unless something else is said. A rank's part is `segments` blocks, moved in order, transfer by
transfer; the blocks of a segment stand side by side in a shared file. Reading, the ranks of a
client take the parts of the next client. Data are a seeded pattern and verified; what is wrong is a
failure of the workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from wattio.clock import Span
from wattio.files.document import Strict
from wattio.files.quantity import Bytes, Size
from wattio.workloads import mpi_launch, mpi_report
from wattio.workloads.mpi_launch import RankOptions
from wattio.workloads.mpi_report import Report
from wattio.workloads.ranks import SECTOR_BYTES
from wattio.workloads.workload import Context, Operation

FOLDER = "wattio-mpi-io"
AT_HOSTS: Mapping[str, str] = {}
"""Ranks are started by the launcher, which says what is missing there."""

STEPS = ("write", "read")

_DIRECT_BYTES = 4096
_GUESS_BYTES_PER_S = 100e6
_MIB = 1 << 20


Hint = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,36}$")]
HintValue = Annotated[str, Field(min_length=1, max_length=256)]


class Options(Strict):
    """Sizes and ways; `total` is over all clients and split evenly, `block` is one rank's."""

    api: Literal["posix", "mpiio"] = "posix"  # how ranks read and write
    total: Size | None = None  # over all clients, split evenly; or `block`
    block: Size | None = None  # of one rank at a stretch
    transfer: Bytes = 4 * _MIB  # of one request
    segments: int = Field(default=1, ge=1, le=1_000_000)  # blocks of each rank, one after the other
    # A file of each rank, or one of all; posix has files of each where nothing is said, mpiio one.
    file_per_process: bool | None = None
    # MPI-IO's collective calls: all ranks move each transfer together.
    collective: bool = False
    # MPI-IO's hints, as { cb_nodes = "4" }; which of them the library took is recorded.
    hints: dict[Hint, HintValue] = Field(default_factory=dict)
    # Read the parts of the next client, which cannot be in this one's cache; or of one drawn.
    shift: bool | Literal["random"] = True
    shift_by: int = Field(default=1, ge=1, le=4096)  # clients further, where not the next one
    # Whether a rank's transfers go through its part from its beginning, or in an order drawn.
    order: Literal["sequential", "random"] = "sequential"
    fsync: bool = True  # written data counts when it is on the disk
    # Past the page cache (O_DIRECT).
    direct: bool = False
    verify: bool = True  # compare what is read with what was written
    # Share of each host's memory that is taken, so that caches lack it.
    memory_held: float = Field(default=0.0, ge=0, le=0.95)
    seed: int = Field(default=1, ge=0, lt=2**63)  # the data depends on it
    launcher: RankOptions = RankOptions()

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if (self.total is None) == (self.block is None):
            raise ValueError("give either total (over all clients) or block (of one rank)")
        unit = _DIRECT_BYTES if self.direct else SECTOR_BYTES
        if self.transfer % unit:
            raise ValueError(f"transfer must be a multiple of {unit} B")
        if self.block is not None and self.block % self.transfer:
            raise ValueError("block must be a multiple of transfer")
        if self.direct and self.api != "posix":
            raise ValueError('direct is for api = "posix": MPI-IO opens files by itself')
        if self.api != "mpiio" and (self.hints or self.collective):
            what = "hints are" if self.hints else "collective is"
            raise ValueError(f'{what} for api = "mpiio": posix has none')
        if self.collective and self.own_files:
            raise ValueError("collective is for one file of all ranks: not with file_per_process")
        if self.shift_by != 1 and self.shift is not True:
            raise ValueError("shift_by is for shift = true")
        return self

    @property
    def own_files(self) -> bool:
        """Whether each rank has a file of its own."""
        return self.api == "posix" if self.file_per_process is None else self.file_per_process

    def block_bytes(self, ranks: int) -> int:
        """The block of each rank: the even share of the total, rounded to whole transfers."""
        if self.block is not None:
            return int(self.block)
        assert self.total is not None
        share = self.total / ranks / self.segments
        return max(1, round(share / self.transfer)) * int(self.transfer)

    def moved_bytes(self, ranks: int) -> int:
        """What all ranks move."""
        return self.block_bytes(ranks) * self.segments * ranks


class Work:
    """The workload with its options."""

    def __init__(self, options: Options, base: Path) -> None:
        """There are no files beside the study: `base` is not looked at."""
        self._options = options

    def _ranks(self, clients: int) -> int:
        return clients * self._options.launcher.ranks_per_client

    def probe(self) -> None:
        """Raise HostError where mpi4py or the launcher is missing."""
        mpi_launch.probe(self._options.launcher)

    def describe(self) -> dict[str, Any]:
        """The options and the launcher."""
        options = self._options.model_dump(mode="json", exclude={"launcher"}, exclude_none=True)
        options["file_per_process"] = self._options.own_files
        return {**options, **mpi_launch.describe(self._options.launcher)}

    def steps(self) -> tuple[str, ...]:
        """Write, then read."""
        return STEPS

    def bytes_needed(self, clients: int) -> float:
        """The blocks of all ranks."""
        return self._options.moved_bytes(self._ranks(clients))

    def seconds_guess(self, clients: int) -> float:
        """Both steps at 100 MB/s over all clients."""
        moved = self.bytes_needed(clients)
        return len(STEPS) * (moved / _GUESS_BYTES_PER_S + mpi_launch.START_GUESS_S)

    def prepare(self, context: Context) -> None:
        """Remove what an earlier run may have left; the ranks make their folder themselves."""
        self.clean(context)

    def run(self, step: str, context: Context) -> list[Span]:
        """Run one step, one phase: from the last rank that passed the barrier to the last end."""
        options = self._options
        ranks = self._ranks(context.clients)
        task = {
            **options.model_dump(
                include={
                    *("api", "segments", "shift", "shift_by", "fsync", "direct", "verify"),
                    *("seed", "collective", "hints", "order"),
                }
            ),
            "own_files": options.own_files,
            "program": step,
            "folder": FOLDER,
            "block_bytes": options.block_bytes(ranks),
            "transfer_bytes": int(options.transfer),
            "total_bytes": None if options.total is None else int(options.total),
            "memory_held": options.memory_held,
        }
        return mpi_launch.run(step, "io", task, options.launcher, context)

    def clean(self, context: Context) -> None:
        """Remove the files."""
        context.remove_folders(FOLDER)


def results(raw: Path) -> list[Operation]:
    """The results of a step. Raises ResultError."""
    return mpi_launch.results(raw, doubts)


def doubts(task: dict[str, Any], report: Report, step: str) -> list[str]:
    """What is known to be doubtful about a step."""
    found = []
    moved = sum(part.bytes for rank in report.ranks for part in rank.phases)
    asked = task.get("total_bytes")
    if isinstance(asked, int) and asked != moved:
        found.append(
            f"{asked} B do not divide into whole transfers of all ranks: {moved} B were moved"
        )
    found += _hint_doubts(task, report)
    if step == "write" and not task.get("fsync") and not task.get("direct"):
        found.append("written without fsync: part of it may have stayed in memory")
    if step == "read" and not task.get("direct"):
        found += _cache_doubts(task, report, moved)
    return found


def _hint_doubts(task: dict[str, Any], report: Report) -> list[str]:
    """Hints that the library did not take, or took otherwise: it may, and says so if asked."""
    asked, told = task.get("hints"), report.facts.get("hints")
    if not isinstance(asked, dict) or not isinstance(told, dict):
        return []
    return [
        f'the hint {name} = "{value}" was not taken: {report.mpi} '
        + (f'has "{told[name]}"' if name in told else "does not know it")
        for name, value in asked.items()
        if told.get(name) != value
    ]


def _cache_doubts(task: dict[str, Any], report: Report, moved: int) -> list[str]:
    """Whether what is read may lie in memory: the clients' own, or that of hosts that serve."""
    free = {rank.host: rank.memory_bytes for rank in report.ranks}
    for rank in report.ranks:
        free[rank.host] -= rank.memory_held_bytes
    memory = sum(free.values())
    found = []
    if moved < memory:
        found.append(
            f"{moved / _MIB:,.0f} MiB are less than the clients' memory"
            f" ({memory / _MIB:,.0f} MiB): reads may come from a cache"
        )
    return [*found, *mpi_report.shift_doubts(report, task)]
