"""IOR, where it is installed: write and read, each an invocation of its own.

So each phase has stamps of ours, finer than IOR's whole seconds, and power can be told apart. Files
are kept between the two (`-k`), and each rank reads what another wrote (`-C`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from wattio.clock import Span
from wattio.errors import WorkloadFailed
from wattio.files.document import Strict
from wattio.files.quantity import Bytes, Size
from wattio.workloads import invocation, ior_output, mpirun
from wattio.workloads.mpirun import LauncherOptions
from wattio.workloads.workload import Context, Operation

_STEPS = {"write": "-w", "read": "-r"}
_GUESS_BYTES_PER_S = 100e6


class Options(Strict):
    """IOR's options under their long names."""

    api: Literal["POSIX", "MPIIO"] = "POSIX"  # -a: the way that ranks read and write
    transfer: Bytes = 4 * 2**20  # -t: bytes of one request
    block: Size  # -b: what a rank moves at a stretch
    segments: int = Field(default=1, ge=1, le=10**9)  # -s: blocks of each rank
    file_per_process: bool = True  # -F: each rank has a file of its own
    shift: bool = True  # -C: ranks read what the next node has written
    fsync: bool = True  # -e: written data counts when it is on the disk
    # -M: held by IOR, as "75%" or "2g", so that less is left for caches.
    memory_per_node: str | None = Field(default=None, pattern=r"^[0-9]+[kmgt%]?$")
    extra: list[str] = Field(default_factory=list)  # go to IOR as they are
    launcher: LauncherOptions = LauncherOptions()


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

    def run(self, step: str, context: Context) -> list[Span]:
        """Run one step; the phase is IOR's whole run. Raises WorkloadFailed."""
        target = self._target(context) / "data"
        span = self._run(step, [_STEPS[step], "-o", str(target)], context)
        output = (context.raw / "output.txt").read_text(encoding="utf-8", errors="replace")
        if "ERROR" in output:
            words = next(line.strip() for line in output.split("\n") if "ERROR" in line)
            raise WorkloadFailed(f"ior: {words}")
        return [span]

    def _arguments(self) -> list[str]:
        options = self._options
        found = ["-a", options.api, "-t", f"{round(options.transfer)}"]
        found += ["-b", f"{round(options.block)}", "-s", f"{options.segments}", "-i", "1", "-k"]
        flags = {"-F": options.file_per_process, "-C": options.shift, "-e": options.fsync}
        found += [flag for flag, wanted in flags.items() if wanted]
        if options.memory_per_node is not None:
            found += ["-M", options.memory_per_node]
        return [*found, *options.extra, "-O", "summaryFormat=JSON"]


def results(raw: Path) -> list[Operation]:
    """The results of a step. Raises ResultError."""
    ran = invocation.recall(raw)
    span = ran.span()
    told = ior_output.parse(invocation.text_of(raw, ran.programs[0]))
    return [
        replace(one, phase=ran.step, start_utc_ns=span.start.utc_ns, end_utc_ns=span.end.utc_ns)
        for one in told.operations
    ]
