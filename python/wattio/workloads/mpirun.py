"""Starting an installed MPI benchmark: ranks on the clients' hosts, one path for all of them."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from wattio.clock import Span
from wattio.errors import WorkloadFailed
from wattio.files.document import Strict
from wattio.workloads import invocation, processes
from wattio.workloads.processes import Program
from wattio.workloads.workload import Context

MISSING = "it is in no package registry; build it from https://github.com/hpc/ior, or use {}"

_LOCAL = "localhost"

# Both spellings of Open MPI's: for version 5, and for those before. Other launchers pass them by.
_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


class LauncherOptions(Strict):
    """`[workload.launcher]`: the `mpirun` that belongs to the benchmark, with more options."""

    mpirun: str = "mpirun"  # which one
    options: list[str] = Field(default_factory=list)  # further options of it
    ranks_per_client: int = Field(default=1, ge=1, le=4096)  # ranks of each client


def shared_folder(context: Context, program: str) -> Path:
    """The folder of all clients. Raises WorkloadFailed where they have several.

    These benchmarks take one path for all ranks, so clients that mount the system at places of
    their own would all work through the first one's.
    """
    folders = sorted({place.folder for place in context.places})
    if len(folders) > 1:
        shown = ", ".join(map(str, folders[:3]))
        raise WorkloadFailed(
            f"{program} takes one path for all clients, and these have several ({shown}): "
            "use mpi_io and mpi_meta, or hosts with the same mount point"
        )
    return folders[0]


def run(
    step: str,
    launcher: LauncherOptions,
    arguments: Sequence[str],
    context: Context,
) -> Span:
    """Run a program on all ranks; its output goes to `output.txt`. Raises WorkloadFailed."""
    hosts = [place.host for place in context.places]
    ranks = str(len(hosts) * launcher.ranks_per_client)
    head = [launcher.mpirun, "-np", ranks]
    if any(host != _LOCAL for host in hosts):
        head += ["--host", ",".join(f"{host}:{launcher.ranks_per_client}" for host in hosts)]
    program = Program(
        (*head, *launcher.options, *arguments),
        context.raw / "output.txt",
        context.raw / "errors.txt",
        environment=_ENVIRONMENT,
    )
    ended = processes.run_all([program], context.cancelled)
    return invocation.keep(context.raw, step, ended).span()


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
        processes.find(self._launcher.mpirun, "apt install openmpi-bin")

    def describe(self) -> dict[str, Any]:
        """The programs, and how the benchmark is called."""
        return {
            self.program: shutil.which(self.program),
            "mpirun_version": processes.first_line((self._launcher.mpirun, "--version")),
            "arguments": self._arguments(),
        }

    def prepare(self, context: Context) -> None:
        """Make the folder."""
        self._target(context).mkdir(parents=True, exist_ok=True)

    def clean(self, context: Context) -> None:
        """Remove the folder."""
        for place in context.places:
            shutil.rmtree(place.folder / self.folder, ignore_errors=True)

    @abstractmethod
    def _arguments(self) -> list[str]:
        """What the benchmark is called with in all of its steps."""

    def _target(self, context: Context) -> Path:
        return shared_folder(context, self.title) / self.folder

    def _run(self, step: str, more: Sequence[str], context: Context) -> Span:
        """Run one step; the phase is the benchmark's whole run. Raises WorkloadFailed."""
        arguments = [self.program, *self._arguments(), *more]
        return run(step, self._launcher, arguments, context)
