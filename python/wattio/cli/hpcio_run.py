"""`wattio hpcio run`: one run of the mini-app over the I/O middleware, between meters."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from wattio.cli import output
from wattio.cli.load_options import Quantity
from wattio.errors import HostError, InputError, WorkloadFailed
from wattio.meters.meter import MeterLost, MeterRefused

if TYPE_CHECKING:
    from wattio.clock import Span
    from wattio.measuring.single import Energy
    from wattio.workloads.hpcio import Options
    from wattio.workloads.hpcio_output import Report, Spread

EXIT_DONE = 0
EXIT_PROBLEM = 1

RAW = "run"
"""The folder within that of the dumps for what is kept of the run itself."""

RESULT = "result.json"
"""What `--json` prints, in that folder: `wattio hpcio calibrate` reads it."""

_LOOK_S = 0.2

_ESTIMATE = "estimate:assumed"


def run(
    *,
    out: Path,
    approach: str = "tp",
    ranks: int = 2,
    ranks_per_node: int | None = None,
    steps: int = 120,
    output_every: int = 10,
    size: str = "small",
    scaling: Literal["strong", "weak"] = "strong",
    variables: str | None = None,
    buffer: Quantity = "256 MiB",
    when_full: Literal["block", "drop_oldest", "write_through"] = "block",
    compression: str = "none",
    checksum: bool = True,
    sync: bool = True,
    meter: Annotated[tuple[str, ...], Parameter(negative="")] = (_ESTIMATE,),
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Run a small atmospheric simulation in MPI, and measure what its output costs.

    Wall time is from the first step until the last dump is written. Blocked time is how long a
    computing rank waited for a dump to be taken. Without a meter the energy is an estimate of the
    whole host, and called so. Exit code 1 where a dump or a rank failed.

    Parameters
    ----------
    out
        Folder for the dumps: a new or empty one; the run's own record goes to `run` within.
    approach
        `tp` (every rank writes), `dc:N` (N ranks of each node write), `dn:R` (one node writes for
        each R that compute).
    ranks
        MPI processes altogether, on this machine.
    ranks_per_node
        Emulate nodes of so many ranks; without it, this machine is one node.
    steps
        Time steps.
    output_every
        Steps between dumps; 0 writes nothing.
    size
        `tiny`, `small`, `medium`, `large` or `document` (373 MB for each dump).
    scaling
        Whether the size is the whole domain (strong) or the part of each computing rank (weak).
    variables
        What a dump holds, with commas: all of u,v,w,theta,pressure,moisture.
    buffer
        Memory of each node for dumps on their way.
    when_full
        What happens when the buffer is full.
    compression
        `none`, or `gzip:1` to `gzip:9`.
    checksum
        Keep a checksum of each block.
    sync
        Bring each dump to the disk before it counts as written.
    meter
        Name of a meter; several are shown side by side.
    as_json
        Print one JSON object.
    """
    given = {
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
    }
    if ranks_per_node is not None:
        given["ranks_per_node"] = ranks_per_node
    if variables is not None:
        given["variables"] = [name.strip() for name in variables.split(",")]
    options = _options(given)
    raw = _raw_folder(out)
    try:
        report, energies = _measure(options, out, raw, meter, quiet=as_json)
    except (HostError, WorkloadFailed, MeterLost, MeterRefused) as error:
        _say(f"wattio: {error}")
        return EXIT_PROBLEM
    found = told(report, energies) | {"dumps_folder": str(out), "raw": str(raw)}
    (raw / RESULT).write_text(json.dumps(found), encoding="utf-8")
    if as_json:
        output.print_json(found)
    else:
        output.console().print(_table(report, energies))
        _say(f"dumps: {out}")
    for text in report.errors():
        _say(f"FAILED: {text}")
    return EXIT_PROBLEM if report.errors() else EXIT_DONE


def _options(given: dict[str, Any]) -> Options:
    from wattio.study import document
    from wattio.study.document import Document
    from wattio.workloads.hpcio import Options

    return document.validate(Options, Document(Path("command line"), "", given))


def _raw_folder(out: Path) -> Path:
    """Make the folders. Raises InputError where there is anything in them already."""
    raw = out / RAW
    try:
        if out.exists() and any(out.iterdir()):
            raise InputError(f"--out: {out} is not empty; name a new folder")
        raw.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"--out: {out}: cannot be used: {error.strerror}") from None
    return raw


def _measure(
    options: Options, out: Path, raw: Path, meters: tuple[str, ...], *, quiet: bool
) -> tuple[Report, list[Energy]]:
    from wattio.measuring import single
    from wattio.workloads import hpcio, mpi_launch
    from wattio.workloads.ranks import boot
    from wattio.workloads.workload import Context, Place

    hpcio.Work(options, Path()).probe()
    with _stopped_by_signals() as stopped:
        context = Context((Place(out),), raw, stopped)

        def work() -> tuple[Report, Span]:
            with _progress(raw / mpi_launch.OUTPUT, options.steps, quiet=quiet):
                report = hpcio.launch(options, out.absolute(), context)
            return report, report.span(boot())

        return single.metered(meters, raw, work)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """While entered, Ctrl-C and SIGTERM set the event; a second one ends the program."""
    stopped = threading.Event()

    def note(_: int, __: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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


def told(report: Report, energies: list[Energy]) -> dict[str, Any]:
    """A run as plain data, without what is not known; times are in seconds."""
    account, checks = report.account, report.checks
    blocked, slowest = report.blocked_s, report.blocked_s_slowest
    found = {
        "approach": account.approach,
        "ranks": report.ranks,
        "ranks_computing": report.computing,
        "nodes": len({rank["node"] for rank in account.ranks}) or None,
        "write_s_slowest_rank_mean": _write_s(account.ranks),
        "arrangement": report.arrangement,
        "size": report.plan.size,
        "scaling": report.plan.scaling,
        "grid": [report.domain.nx, report.domain.ny, report.domain.nz],
        "steps": report.plan.steps,
        "output_every": report.plan.output_every,
        "dumps": report.dumps,
        "dump_bytes": report.dump_bytes,
        "wall_s": report.seconds,
        "drain_s": report.drain_s,
        "step_s_mean": report.step_s.mean,
        "step_s_p99": report.step_s.p99,
        "step_s_max": report.step_s.max,
        "dump_s_mean": report.dump_s.mean,
        "blocked_s_mean": blocked.mean,
        "blocked_s_p99": blocked.p99,
        "blocked_s_max": blocked.max,
        "blocked_s_slowest_rank_mean": slowest.mean,
        "stalls": account.stalls,
        "drops": account.drops,
        "dropped_steps": account.dropped,
        "written_through": account.written_through,
        "bytes": account.bytes,
        "files": account.files,
        "errors": report.errors(),
        "cpu_s_computing": report.cpu_s_computing,
        "cpu_s_writing": report.cpu_s_writing,
        "energy": [one.as_dict(report.dumps) for one in energies],
        "mass_change": checks.mass_change,
        "bubble_height_m_first": checks.before.bubble_height_m,
        "bubble_height_m_last": checks.after.bubble_height_m,
        "state_fingerprint": f"{checks.after.fingerprint:016x}",
    }
    return {name: value for name, value in found.items() if value is not None}


def _write_s(ranks: Sequence[Mapping[str, Any]]) -> float | None:
    """How long the slowest rank was busy writing a dump, in the mean over dumps."""
    slowest: dict[int, float] = {}
    for rank in ranks:
        for dump in rank["dumps"]:
            if dump["files"] and not dump["dropped"]:
                slowest[dump["step"]] = max(slowest.get(dump["step"], 0.0), dump["write_s"])
    return sum(slowest.values()) / len(slowest) if slowest else None


def _table(report: Report, energies: list[Energy]) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in _rows(report, energies):
        table.add_row(name, value)
    return table


def _rows(report: Report, energies: list[Energy]) -> Iterator[tuple[str, str]]:
    account, grid, number = report.account, report.domain, output.number
    writers = report.ranks - report.computing
    yield "approach", f"{account.approach}, {report.computing} ranks compute, {writers} only write"
    yield "grid", f"{grid.nx} x {grid.ny} x {grid.nz} cells, {report.plan.size}"
    yield "wall time", f"{number(report.seconds)} s, {number(report.drain_s)} s of it after the end"
    yield "step", _spread(report.step_s)
    yield "dumps", f"{report.dumps} of {report.dump_bytes / 1e6:,.3g} MB"
    if report.dumps:
        yield "blocked by a dump", _spread(report.blocked_s)
        counts = f"{account.stalls} stalls, {account.drops} dumps dropped"
        yield "buffer", f"{counts}, {account.written_through} written through"
        yield "written", f"{account.bytes / 1e6:,.4g} MB in {account.files} files"
    cpu = f"{number(report.cpu_s_computing)} s computing, {number(report.cpu_s_writing)} s writing"
    yield "processor time", cpu
    for energy in energies:
        yield _energy_row(energy, report.dumps)
    change = report.checks.mass_change
    yield "mass", "-" if change is None else f"changed by {change:.1e} of itself"
    heights = (report.checks.before.bubble_height_m, report.checks.after.bubble_height_m)
    yield "bubble", f"from {number(heights[0])} m to {number(heights[1])} m"
    yield "state", f"{report.checks.after.fingerprint:016x}"


def _energy_row(energy: Energy, dumps: int) -> tuple[str, str]:
    kind = "energy, ESTIMATE" if energy.facts.estimate else "energy"
    if energy.energy_j is None:
        return kind, f"unknown by {energy.facts.name}"
    each = f", {output.number(energy.energy_j / dumps)} J a dump" if dumps else ""
    power = f" ({output.number(energy.power_w_mean)} W)"
    troubles = "".join(f"; {text}" for text in energy.troubles)
    return kind, f"{output.number(energy.energy_j)} J{power}{each}, {energy.facts.name}{troubles}"


def _spread(spread: Spread) -> str:
    parts = ((name, getattr(spread, name)) for name in ("mean", "p99", "max"))
    return ", ".join(f"{name} {output.number(1e3 * v)} ms" for name, v in parts if v is not None)


def _say(message: str) -> None:
    output.messages().print(message, markup=False, highlight=False, soft_wrap=True)
