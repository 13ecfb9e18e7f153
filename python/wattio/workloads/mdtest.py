"""mdtest, where it is installed: create, stat, read and remove, each an invocation of its own.

Tasks are shifted between the phases (`-N`), so that no client answers from its own cache. The phase
is from the line in which mdtest tells how much it will make to that above its results.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, model_validator

from wattio.clock import Span
from wattio.files.document import Strict
from wattio.files.quantity import Bytes
from wattio.workloads import invocation, mdtest_output, mpirun
from wattio.workloads.mpirun import LauncherOptions, StepOutput
from wattio.workloads.workload import Context, Operation

AT_HOSTS: Mapping[str, str] = {}
"""The launcher says what is missing there."""

_STEPS = {"create": "-C", "stat": "-T", "read": "-E", "remove": "-r"}
_GUESS_PER_S = 1000.0


class Options(Strict):
    """`items` files (and directories) for each rank, in a tree of `branches` and `depth`."""

    # -n: files (and directories) of each rank, over all directories of the tree.
    items: int | None = Field(default=None, ge=1, le=10**9)
    items_per_directory: int | None = Field(default=None, ge=1, le=10**9)  # -I: in each of them
    branches: int = Field(default=1, ge=1, le=10**6)  # of each directory of the tree
    depth: int = Field(default=0, ge=0, le=64)  # of the tree; 0 is one large directory
    bytes: Bytes | None = 1024.0  # -w, -e: written to, and read from, each file
    read_bytes: Bytes | None = None  # -e: read from each file, if not all
    files_only: bool = False  # -F: no directories
    unique_folders: bool = False  # -u: each rank has a tree of its own
    # -N: ranks look at what that many ranks further has made.
    shift: int = Field(default=1, ge=0, le=10**6)
    extra: list[str] = Field(default_factory=list)  # go to mdtest as they are
    launcher: LauncherOptions = LauncherOptions()

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if (self.items is None) == (self.items_per_directory is None):
            raise ValueError("give either items (of each rank) or items_per_directory")
        if self.read_bytes is not None and (self.bytes is None or self.read_bytes > self.bytes):
            raise ValueError("read_bytes must not be above bytes, the size of each file")
        return self

    @property
    def items_of_rank(self) -> int:
        """The files (and directories) of each rank."""
        if self.items is not None:
            return self.items
        assert self.items_per_directory is not None
        return self.items_per_directory * sum(int(self.branches**n) for n in range(self.depth + 1))


class Work(mpirun.Benchmark):
    """mdtest with its options."""

    program = "mdtest"
    title = "mdtest"
    instead = "mpi_meta"

    def __init__(self, options: Options, base: Path) -> None:
        """There are no files beside the study: `base` is not looked at."""
        super().__init__(options.launcher)
        self._options = options

    def steps(self) -> tuple[str, ...]:
        """Create, stat, read where files hold something, remove."""
        return tuple(step for step in _STEPS if step != "read" or self._options.bytes is not None)

    def seconds_guess(self, clients: int) -> float:
        """All steps at 1000 operations a second over all clients."""
        ranks = clients * self._launcher.ranks_per_client
        return len(self.steps()) * self._options.items_of_rank * ranks / _GUESS_PER_S

    def bytes_needed(self, clients: int) -> float:
        """What all ranks write into their files."""
        ranks = clients * self._launcher.ranks_per_client
        return self._options.items_of_rank * ranks * (self._options.bytes or 0.0)

    def _of_step(self, step: str, context: Context) -> list[str]:
        return [_STEPS[step], "-d", str(self._target(context))]

    def _arguments(self) -> list[str]:
        options = self._options
        count = ("-n", options.items) if options.items else ("-I", options.items_per_directory)
        found = [count[0], f"{count[1]}", "-b", f"{options.branches}", "-z", f"{options.depth}"]
        found += ["-i", "1", "-N", f"{options.shift}"]
        if options.bytes is not None:
            read = options.bytes if options.read_bytes is None else options.read_bytes
            found += ["-w", f"{round(options.bytes)}", "-e", f"{round(read)}"]
        flags = {"-F": options.files_only, "-u": options.unique_folders}
        found += [flag for flag, wanted in flags.items() if wanted]
        return [*found, *options.extra]

    @staticmethod
    def failure(output: str) -> str | None:
        """mdtest's own words for what went wrong."""
        return mdtest_output.failure(output)

    @staticmethod
    def read(raw: Path) -> StepOutput:
        """What mdtest said of a step. Raises ResultError."""
        ran = invocation.recall(raw)
        told = mdtest_output.parse(invocation.text_of(raw, ran.programs[0]))
        lines = mpirun.heard(raw)
        ready = next((one.at for one in lines if mdtest_output.begins(one.line)), None)
        done = next((one.at for one in lines if mdtest_output.ends(one.line)), None)
        own = Span(ran.step, ready, done) if ready is not None and done is not None else None
        span, doubt = mpirun.phase(ran.span(), ready, own, told.operations)
        return StepOutput(span, mpirun.placed(told.operations, span, doubt), told.ranks)


def results(raw: Path) -> list[Operation]:
    """The results of a step. Raises ResultError."""
    return list(Work.read(raw).operations)
