"""IOR, where it is installed: write and read, each an invocation of its own.

IOR prints a row when an access has ended. The moment at which it comes, less the seconds in it, is
when the phase began: finer than IOR's own stamps of whole seconds. Files are kept between the two
(`-k`), and each rank reads what another wrote (`-C`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from wattio.clock import Instant, Span
from wattio.files.document import Strict
from wattio.files.quantity import Bytes, Size
from wattio.workloads import invocation, ior_output, mpirun
from wattio.workloads.mpirun import LauncherOptions, StepOutput
from wattio.workloads.phases import TimedLine
from wattio.workloads.workload import Context, Operation

AT_HOSTS: Mapping[str, str] = {}
"""The launcher says what is missing there."""

_STEPS = {"write": "-w", "read": "-r"}
_GUESS_BYTES_PER_S = 100e6

_PERCENT = re.compile(r"(\d{1,2}|100) ?%")
# What IOR's own options have, for which it took these itself before.
_SHORT = re.compile(r"(\d{1,12})([kmgt])", re.IGNORECASE)
_SIZE: TypeAdapter[float] = TypeAdapter(Size)
_ROW = re.compile(r'"totalTime":\s*([0-9.]{1,30})')
_READY = '"Results"'


class Options(Strict):
    """IOR's options under their long names."""

    api: Literal["POSIX", "MPIIO"] = "POSIX"  # -a: the way that ranks read and write
    transfer: Bytes = 4 * 2**20  # -t: bytes of one request
    block: Size  # -b: what a rank moves at a stretch
    segments: int = Field(default=1, ge=1, le=10**9)  # -s: blocks of each rank
    file_per_process: bool = True  # -F: each rank has a file of its own
    collective: bool = False  # -c: MPI-IO's collective calls
    # -C: ranks read what the next node has written; "random" is -Z.
    shift: bool | Literal["random"] = True
    shift_by: int = Field(default=1, ge=1, le=10**6)  # -Q: nodes further; with "random" at least
    random_offsets: bool = False  # -z: transfers lie in an order drawn
    fsync: bool = True  # -e: written data counts when it is on the disk
    # Held by IOR on each node, as "75%" or "2 GiB", so that less is left for caches.
    memory_per_node: str | None = None
    extra: list[str] = Field(default_factory=list)  # go to IOR as they are
    launcher: LauncherOptions = LauncherOptions()

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.collective and self.api != "MPIIO":
            raise ValueError('collective is for api = "MPIIO"')
        if self.shift_by != 1 and not self.shift:
            raise ValueError('shift_by is for shift = true or "random"')
        return self

    @field_validator("memory_per_node")
    @classmethod
    def _memory(cls, told: str | None) -> str | None:
        if told is not None and _PERCENT.fullmatch(told) is None:
            _memory_bytes(told)
        return told


def _memory_bytes(told: str) -> int:
    """A size, also as IOR writes it ("2g" is 2 GiB). Raises ValueError with what is allowed."""
    short = _SHORT.fullmatch(told)
    try:
        return round(_SIZE.validate_python(f"{short[1]} {short[2].upper()}iB" if short else told))
    except ValidationError:
        raise ValueError(
            f'"{told}" is not an amount of memory; allowed: a share such as "75%", or a size'
            ' such as "2 GiB" or "256 MiB"'
        ) from None


class Work(mpirun.Benchmark):
    """IOR with its options."""

    program = "ior"
    title = "IOR"
    instead = "mpi_io"

    def __init__(self, options: Options, base: Path) -> None:
        """There are no files beside the study: `base` is not looked at."""
        super().__init__(options.launcher)
        self._options = options

    def steps(self) -> tuple[str, ...]:
        """Write, then read."""
        return tuple(_STEPS)

    def bytes_needed(self, clients: int) -> float:
        """The blocks of all ranks."""
        ranks = clients * self._launcher.ranks_per_client
        return self._options.block * self._options.segments * ranks

    def seconds_guess(self, clients: int) -> float:
        """Both steps at 100 MB/s over all clients."""
        return len(_STEPS) * self.bytes_needed(clients) / _GUESS_BYTES_PER_S

    def _of_step(self, step: str, context: Context) -> list[str]:
        # -M takes a share only: IOR reads "2g" as 2 %. By the task it takes bytes.
        held: list[str] = []
        memory = self._options.memory_per_node
        if memory is not None and _PERCENT.fullmatch(memory) is None:
            ranks = mpirun.job(self._launcher, context)
            on_first = next(iter(ranks.hosts.values()), ranks.ranks)
            held = ["-O", f"memoryPerTask={_memory_bytes(memory) // on_first}"]
        return [*held, _STEPS[step], "-o", str(self._target(context) / "data")]

    def _arguments(self) -> list[str]:
        options = self._options
        found = ["-a", options.api, "-t", f"{round(options.transfer)}"]
        found += ["-b", f"{round(options.block)}", "-s", f"{options.segments}", "-i", "1", "-k"]
        flags = {"-F": options.file_per_process, "-C": options.shift is True, "-e": options.fsync}
        flags |= {"-Z": options.shift == "random", "-c": options.collective}
        flags |= {"-z": options.random_offsets}
        found += [flag for flag, wanted in flags.items() if wanted]
        if options.shift_by != 1:
            found += ["-Q", f"{options.shift_by}"]
        memory = options.memory_per_node
        if memory is not None and _PERCENT.fullmatch(memory) is not None:
            found += ["-M", memory.replace(" ", "")]
        return [*found, *options.extra, "-O", "summaryFormat=JSON"]

    @staticmethod
    def failure(output: str) -> str | None:
        """IOR's own words for what went wrong."""
        return ior_output.failure(output)

    @staticmethod
    def read(raw: Path) -> StepOutput:
        """What IOR said of a step. Raises ResultError."""
        ran = invocation.recall(raw)
        told = ior_output.parse(invocation.text_of(raw, ran.programs[0]), zone=None)
        ready, rows = _rows(mpirun.heard(raw))
        own = None
        if rows and len(rows) == len(told.operations):
            own = Span(ran.step, mpirun.before(*rows[0]), rows[-1][0])
        span, doubt = mpirun.phase(ran.span(), ready, own, told.operations)
        return StepOutput(span, mpirun.placed(told.operations, span, doubt), told.ranks)


def _rows(lines: Sequence[TimedLine]) -> tuple[Instant | None, list[tuple[Instant, float]]]:
    """When IOR was about to begin; when each row of its results came, and the seconds in it."""
    ready = next((one.at for one in lines if _READY in one.line), None)
    found = [(one.at, match[1]) for one in lines if (match := _ROW.search(one.line))]
    try:
        return ready, [(at, float(seconds)) for at, seconds in found]
    except ValueError:
        return ready, []


def results(raw: Path) -> list[Operation]:
    """The results of a step. Raises ResultError."""
    return list(Work.read(raw).operations)
