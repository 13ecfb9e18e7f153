"""Many small files and directories by MPI ranks, with mdtest's semantics.

    [[workload]]
    name = "directory"
    kind = "mpi_meta"
    options = { items = 25000 }                                 # all in one directory
    # options = { shape = "tree", depth = 4, items = 600 }      # in each directory of a tree

All clients share one large directory, or one tree of them. Directories are made, looked at and
removed, then files of 1 KiB (written as they are made) made, looked at, read and removed; each
operation is a phase. Looking at and reading, the ranks of a client take the items of the next one.
`items` are directories, and as many files, in each directory, over all ranks together.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from wattio.clock import Span
from wattio.files.document import Strict, nearest
from wattio.workloads import mpi_launch, mpi_report
from wattio.workloads.mpi_launch import RankOptions
from wattio.workloads.mpi_report import Report
from wattio.workloads.workload import Context, Operation

FOLDER = "wattio-mpi-meta"
AT_HOSTS: Mapping[str, str] = {}
"""Ranks are started by the launcher, which says what is missing there."""

STEP = "metadata"
DIRECTORIES_MAX = 1_000_000

_DIRECTORY = ("directory_creation", "directory_stat", "directory_removal")
_FILE = ("file_creation", "file_stat", "file_read", "file_removal")
_LOOKING = ("directory_stat", "file_stat", "file_read")
_KINDS = {"directories": _DIRECTORY, "files": _FILE}
_GUESS_PER_S = 2000.0


class Options(Strict):
    """Shape and number of the items; `branch` and `depth` are a tree's."""

    shape: Literal["large", "tree"] = "large"  # one large directory, or a tree
    branch: int = Field(default=2, ge=1, le=1000)  # of each directory of the tree
    depth: int = Field(default=4, ge=1, le=30)  # of the tree
    items: int = Field(ge=1, le=100_000_000)  # in each directory, of all ranks together
    kinds: list[str] = Field(default=list(_KINDS), min_length=1)  # what they are
    # Bytes written to each file as it is made, and read.
    file_bytes: int = Field(default=1024, ge=0, le=1 << 20)
    read_bytes: int | None = Field(default=None, ge=0, le=1 << 20)  # of each file, if not all
    # A directory or tree of each rank's own, in place of one that all share.
    unique_folders: bool = False
    # Look at the items of the next client, which cannot be in this one's cache.
    shift: bool = True
    shift_by: int = Field(default=1, ge=1, le=4096)  # clients further, where not the next one
    # Bring each file to the disks as it is made.
    sync: bool = False
    launcher: RankOptions = RankOptions()

    @model_validator(mode="after")
    def _agree(self) -> Options:
        for kind in self.kinds:
            if kind not in _KINDS:
                raise ValueError(f'kinds: "{kind}" is not known; ' + nearest(kind, list(_KINDS)))
        if self.directories > DIRECTORIES_MAX:
            raise ValueError(f"a tree has at most {DIRECTORIES_MAX} directories")
        if self.read_bytes is not None and self.read_bytes > self.file_bytes:
            raise ValueError(f"read_bytes must not be above file_bytes, {self.file_bytes}")
        if self.shift_by != 1 and not self.shift:
            raise ValueError("shift_by is for shift = true")
        return self

    @property
    def tree_depth(self) -> int:
        """The levels below the first directory."""
        return self.depth if self.shape == "tree" else 0

    @property
    def directories(self) -> int:
        """How many directories hold items."""
        return sum(self.branch**level for level in range(self.tree_depth + 1))

    @property
    def phases(self) -> list[str]:
        """The operations, in their order."""
        return [phase for kind in _KINDS if kind in self.kinds for phase in _KINDS[kind]]

    def items_each(self, ranks: int) -> int:
        """The items of each rank in each directory: the even share, rounded."""
        return max(1, round(self.items / ranks))


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
        facts = {"directories": self._options.directories, **options}
        return {**facts, **mpi_launch.describe(self._options.launcher)}

    def steps(self) -> tuple[str, ...]:
        """One: its phases follow each other at once."""
        return (STEP,)

    def seconds_guess(self, clients: int) -> float:
        """2000 operations a second over all clients."""
        items = self._options.items_each(self._ranks(clients)) * self._ranks(clients)
        operations = items * self._options.directories * len(self._options.phases)
        return operations / _GUESS_PER_S + mpi_launch.START_GUESS_S

    def bytes_needed(self, clients: int) -> float:
        """What all ranks write into their files."""
        items = self._options.items_each(self._ranks(clients)) * self._ranks(clients)
        return float(items * self._options.directories * self._options.file_bytes)

    def prepare(self, context: Context) -> None:
        """Remove what an earlier run may have left; the ranks make their folders themselves."""
        self.clean(context)

    def run(self, step: str, context: Context) -> list[Span]:
        """Run all operations; each is a phase, which begins when the one before has ended."""
        options = self._options
        task = {
            **options.model_dump(
                include={
                    *("branch", "file_bytes", "read_bytes", "unique_folders"),
                    *("shift", "shift_by", "sync", "items"),
                }
            ),
            "program": step,
            "folder": FOLDER,
            "depth": options.tree_depth,
            "items_each": options.items_each(self._ranks(context.clients)),
            "phases": options.phases,
        }
        return mpi_launch.run(step, "meta", task, options.launcher, context)

    def clean(self, context: Context) -> None:
        """Remove the files and directories."""
        context.remove_folders(FOLDER)


def results(raw: Path) -> list[Operation]:
    """The results of a step. Raises ResultError."""
    return mpi_launch.results(raw, doubts)


def doubts(task: dict[str, Any], report: Report, phase: str) -> list[str]:
    """What is known to be doubtful about a phase."""
    found = []
    asked, each = task.get("items"), task.get("items_each")
    if isinstance(asked, int) and isinstance(each, int) and each * len(report.ranks) != asked:
        ranks = len(report.ranks)
        found.append(f"{asked} items do not divide among {ranks} ranks: {each * ranks} were used")
    return [*found, *(mpi_report.shift_doubts(report, task) if phase in _LOOKING else [])]
