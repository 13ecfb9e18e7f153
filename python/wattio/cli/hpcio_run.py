"""`wattio hpcio run`: one run of the mini-app over the I/O middleware, between meters."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from wattio import signals
from wattio.cli import EXIT_DONE, EXIT_PROBLEM, output, output_path
from wattio.errors import InputError, ResultError, WorkloadFailed, storage_reason
from wattio.meters.meter import MeterLost

if TYPE_CHECKING:
    from wattio.clock import Span
    from wattio.kinds.measurement.one_run import Metered
    from wattio.workloads.hpcio import Options
    from wattio.workloads.hpcio_output import Report


DUMPS = "dumps"
RAW = "run"
"""Folders within the one that is named: for the dumps, and for what is kept of the run itself."""

_LOOK_S = 0.2


def run(
    *,
    out: Path,
    language: Literal["python", "c", "fortran"] = "python",
    approach: str = "tp",
    ranks: int = 2,
    ranks_per_node: int | None = None,
    core_share: str | None = None,
    steps: int = 120,
    output_every: int = 10,
    size: str = "small",
    scaling: Literal["strong", "weak"] = "strong",
    variables: str | None = None,
    buffer: str = "256 MiB",
    when_full: Literal["block", "drop_oldest"] = "block",
    compression: str = "none",
    checksum: bool = True,
    sync: bool = True,
    python: str | None = None,
    mpirun: str = "mpirun",
    meter: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Run a small atmospheric simulation in MPI, and measure what its output costs.

    Wall time is from the first step until the last dump is written. Blocked time is how long a
    computing rank waited for its dumps to be handed over. The kernel reports the seconds for which
    cores were busy and idle in between. Without a meter, the energy of the whole host is estimated
    from these, labelled as an estimate, with the range that the model allows. Exit code 1 if a dump
    or a rank failed, or the result could not be kept.

    Parameters
    ----------
    out
        A new or empty folder: dumps go to its subfolder `dumps`, the record of the run to `run`.
    language
        Language of the mini-app: Python, C or Fortran, all with the same library. The machine's MPI
        compiles C and Fortran the first time.
    approach
        `tp` (every rank writes), `dc:N` (N ranks of each node write), `dn:R` (one node writes for
        each R that compute).
    ranks
        Total number of MPI processes, all on this machine.
    ranks_per_node
        Emulate nodes with this many ranks each; default: this machine is one node.
    core_share
        Limit each rank to this share of a core of its own, such as "20 %", by control groups.
    steps
        Time steps.
    output_every
        Steps between dumps; 0 writes nothing.
    size
        `tiny`, `small`, `medium`, `large` or `document` (373 MB per dump).
    scaling
        Whether the size is the whole domain (strong) or the part of each computing rank (weak).
    variables
        Variables in a dump, separated by commas; default: u,v,w,theta,pressure,moisture.
    buffer
        Memory on each node for dumps that are not yet written.
    when_full
        What happens when the buffer is full: ranks wait, or the oldest dump is dropped.
    compression
        `none`, or `gzip:1` to `gzip:9`.
    checksum
        Keep a checksum of each block.
    sync
        Count a dump as written only once it is on the disk (fsync).
    python
        The Python of the ranks, if not this one: one with wattio, mpi4py and h5py.
    mpirun
        The launcher of that Python's MPI: the one next to that Python, or else the one on the path.
    meter
        Name of a meter; several are shown side by side. Default: all sensors of the kernel that can
        be read here (`wattio meter list`), or else the model fitted to this host, or else an
        assumed one (`estimate:host`).
    as_json
        Print one JSON object.
    """
    given = {
        "language": language,
        "approach": approach,
        "ranks": ranks,
        "steps": steps,
        "output_every": output_every,
        "size": size,
        "scaling": scaling,
        "buffer": buffer,
        "when_full": when_full,
        "compression": compression,
        "checksum": checksum,
        "sync": sync,
        "launcher": {"mpirun": mpirun},
    }
    if python is not None:
        given["launcher"] = {"mpirun": mpirun, "python": python}
    if ranks_per_node is not None:
        given["ranks_per_node"] = ranks_per_node
    if core_share is not None:
        given["core_share"] = core_share
    if variables is not None:
        given["variables"] = [name.strip() for name in variables.split(",")]
    from wattio.cli import hpcio_tables as showing
    from wattio.kinds.measurement.disk_space import refuse_no_room
    from wattio.meters.here import found_here
    from wattio.workloads import hpcio

    options = _options(given)
    work = hpcio.Work(options, Path())
    refuse_no_room(f"--out: {out}", out, work.bytes_needed(1))
    work.probe()
    try:
        with _raw_folder(out) as raw:
            measured = _measure(options, out, raw, meter or found_here(), quiet=as_json)
    except OSError as error:
        # A write to a file that is open does not name it.
        reason = storage_reason(error) or str(error)
        text = reason if error.filename else f"{raw}: cannot be written: {reason}"
        raise ResultError(text) from error
    except (WorkloadFailed, MeterLost) as error:
        output.complain(str(error))
        return EXIT_PROBLEM
    report = measured.result
    places = {"dumps_folder": str(out / DUMPS), "raw": str(raw)}
    told = showing.told(measured, options) | places
    showing.show(measured, told, as_json=as_json)
    try:
        showing.keep(told, raw)
    except OSError as error:
        output.complain(f"{raw / showing.RESULT}: cannot be written: {error.strerror}")
        return EXIT_PROBLEM
    return EXIT_PROBLEM if report.errors() else EXIT_DONE


_GIVEN = "command line"
_KEY = re.compile(rf"^{_GIVEN}: ([a-z_]+)(:| =) ", re.MULTILINE)


def _as_option(key: re.Match[str]) -> str:
    """A key of the options as the command line has it."""
    name = key[1].replace("_", "-")
    return f"--{name}: " if key[2] == ":" else f"--{name} "


def _options(given: dict[str, Any]) -> Options:
    from wattio.files import document
    from wattio.files.document import Document
    from wattio.hpcio import topology
    from wattio.hpcio.free_memory import available_bytes
    from wattio.workloads.hpcio import Options

    try:
        options = document.validate(Options, Document(Path(_GIVEN), "", given))
    except InputError as error:
        raise InputError(_KEY.sub(_as_option, str(error))) from None
    # All ranks are on this machine, so all that they need is known before anything is made.
    per_node = options.ranks_per_node or options.ranks
    roles = options.roles(topology.emulated(options.ranks, per_node))
    buffers = len({roles.nodes[rank] for rank in roles.writing})
    free = available_bytes()
    if free is not None and buffers * options.buffer > free:
        raise InputError(
            f"--buffer: {buffers} of {options.buffer:,.0f} B exceed the {free:,} B of free memory"
            " here; give a smaller one"
        )
    return options


@contextlib.contextmanager
def _raw_folder(out: Path) -> Iterator[Path]:
    """Make the folders. Raises InputError where there is anything in them already.

    Where nothing is in them after an error either, they are removed: the next try needs them.
    """
    raw = out / RAW
    output_path.folder("--out", out)
    try:
        made = not out.exists()
        if not made and any(out.iterdir()):
            raise InputError(f"--out: {out} is not empty; name a new folder")
        raw.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"--out: {out}: cannot be used: {error.strerror}") from None
    try:
        yield raw
    except BaseException:
        with contextlib.suppress(OSError):
            raw.rmdir()
            if made:
                out.rmdir()
        raise


def _measure(
    options: Options, out: Path, raw: Path, meters: tuple[str, ...], *, quiet: bool
) -> Metered[Report]:
    from wattio.kinds.measurement import one_run
    from wattio.workloads import hpcio, mpi_launch
    from wattio.workloads.ranks import boot
    from wattio.workloads.workload import Context, Place

    with signals.flagged() as stopped:
        context = Context((Place(out),), raw, stopped)

        def work() -> tuple[Report, Span]:
            with _progress(raw / mpi_launch.OUTPUT, options.steps, quiet=quiet):
                report = hpcio.launch(options, out.absolute() / DUMPS, context)
            return report, report.span(boot())

        return one_run.metered(meters, raw, work, lambda report: report.core_ticks(boot()))


@contextlib.contextmanager
def _progress(ranks_output: Path, steps: int, *, quiet: bool) -> Iterator[None]:
    """A bar on a terminal, moved by what the ranks print; nothing elsewhere."""
    from wattio.workloads.hpcio_output import steps_done

    console = output.messages()
    if quiet or not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} steps"),
        TimeRemainingColumn(compact=True),
    )
    ended = threading.Event()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting ranks", total=steps)

        def follow() -> None:
            while not ended.wait(_LOOK_S):
                done = steps_done(ranks_output)
                bar.update(task, completed=done, description="running" if done else None)

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        try:
            yield
        finally:
            ended.set()
            follower.join()
