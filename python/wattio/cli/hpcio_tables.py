"""What `wattio hpcio run` prints: a run as a table, or as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from wattio.analysis.cores import Spent
from wattio.cli import output
from wattio.files.plain import plain
from wattio.files.whole import write_whole
from wattio.kinds.measurement.one_run import Energy, Metered
from wattio.workloads.hpcio import Options
from wattio.workloads.hpcio_output import Report, Spread

RESULT = "result.json"
"""What `--json` prints, in the folder of the run: `wattio hpcio calibrate` reads it."""

_OPTIONS = ("when_full", "compression", "checksum", "sync")
"""The middleware's options that a result tells beside the buffer."""


def show(run: Metered[Report], found: dict[str, Any], *, as_json: bool) -> None:
    """Print a run, where its dumps are, and what failed; `found` is the run as plain data."""
    if as_json:
        output.print_json(found)
    else:
        output.console().print(_table(run))
        output.note(f"dumps: {found['dumps_folder']}")
    for text in run.result.errors():
        output.note(f"FAILED: {text}")


def keep(found: dict[str, Any], raw: Path) -> None:
    """Leave a run's plain data in its folder, all of it or none. Raises OSError.

    The disk may be full of the run's dumps.
    """
    write_whole(raw / RESULT, json.dumps(found, allow_nan=False) + "\n")


def told(run: Metered[Report], options: Options) -> dict[str, Any]:
    """A run as plain data, without what is not known; times are in seconds."""
    report = run.result
    account, checks = report.account, report.checks
    blocked, slowest = report.blocked_s, report.blocked_s_slowest
    found = {
        "approach": account.approach,
        "language": options.language,
        "ranks": report.ranks,
        "ranks_computing": report.computing,
        "nodes": report.nodes,
        "core_share": report.core_share,
        "write_s_slowest_rank_mean": report.write_s_slowest_mean,
        "arrangement": report.arrangement,
        **options.model_dump(mode="json", include=set(_OPTIONS)),
        "buffer_bytes": round(options.buffer),
        "size": report.plan.size,
        "scaling": report.plan.scaling,
        "grid": [report.domain.nx, report.domain.ny, report.domain.nz],
        "steps": report.plan.steps,
        "output_every": report.plan.output_every,
        "dumps": report.dumps,
        "dumps_whole": report.dumps_whole,
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
        "bytes": account.bytes,
        "files": account.files,
        "errors": report.errors(),
        "cpu_s_computing": report.cpu_s_computing,
        "cpu_s_writing": report.cpu_s_writing,
        "cores": None if run.spent is None else _cores(run.spent),
        "energy": [one.as_dict(report.dumps_whole) for one in run.energies],
        "mass_change": checks.mass_change,
        "bubble_height_m_first": checks.before.bubble_height_m,
        "bubble_height_m_last": checks.after.bubble_height_m,
        "state_fingerprint": f"{checks.after.fingerprint:016x}",
    }
    return {name: value for name, value in found.items() if value is not None}


def _cores(spent: Spent) -> dict[str, Any]:
    """Core-seconds of this machine as plain data."""
    return {
        "count": round(spent.cores, 3),
        "busy_s": spent.busy_s,
        "idle_s": spent.idle_s,
        "iowait_s": spent.iowait_s,
        "steal_s": spent.steal_s,
        "idle_states_s": dict(spent.states_s),
    }


def _table(run: Metered[Report]) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in _rows(run):
        table.add_row(name, value)
    return table


def _rows(run: Metered[Report]) -> Iterator[tuple[str, str]]:
    report = run.result
    account, grid, number = report.account, report.domain, output.number
    writers = report.ranks - report.computing
    computing = f"{report.computing} ranks compute" if report.computing > 1 else "1 rank computes"
    yield "approach", f"{account.approach}, {computing}, {writers} only write"
    if report.core_share is not None:
        yield "cores", f"{100 * report.core_share:g} % of one for each rank"
    yield "grid", f"{grid.nx} x {grid.ny} x {grid.nz} cells, {report.plan.size}"
    drain = f"{number(1e3 * report.drain_s)} ms of it after the last step"
    yield "wall time", f"{number(report.seconds)} s, {drain}"
    yield "step", _spread(report.step_s)
    yield "dumps", f"{report.dumps} of {plain(report.dump_bytes / 1e6)} MB"
    if report.dumps:
        yield "blocked by a dump", _spread(report.blocked_s)
        yield "buffer", f"{account.stalls} stalls, {account.drops} dumps dropped"
        yield "written", f"{plain(account.bytes / 1e6, 4)} MB in {account.files} files"
    cpu = f"{number(report.cpu_s_computing)} s computing, {number(report.cpu_s_writing)} s writing"
    yield "processor time", cpu
    if run.spent is not None:
        yield "this machine's cores", _core_time(run.spent)
    for energy in run.energies:
        yield from _energy_rows(energy, report.dumps_whole)
    change = report.checks.mass_change
    yield "mass", "-" if change is None else f"changed by {change:.1e} of itself"
    heights = (report.checks.before.bubble_height_m, report.checks.after.bubble_height_m)
    yield "bubble", f"from {number(heights[0])} m to {number(heights[1])} m"
    yield "state", f"{report.checks.after.fingerprint:016x}"


def _core_time(spent: Spent) -> str:
    """Busy and idle core-seconds, and of others those that there were."""
    number = output.number
    text = f"{number(spent.busy_s)} s busy, {number(spent.idle_s)} s idle"
    for name, seconds in (("waiting for disks", spent.iowait_s), ("stolen", spent.steal_s)):
        text += f", {number(seconds)} s {name}" if seconds > 0 else ""
    return f"{text} ({number(spent.cores)} cores)"


def _energy_rows(energy: Energy, dumps: int) -> Iterator[tuple[str, str]]:
    kind = "energy, ESTIMATE" if energy.facts.estimate else "energy"
    troubles = "".join(f"; {text}" for text in energy.troubles)
    if energy.energy_j is None:
        yield kind, f"unknown by {energy.facts.name}{troubles}"
        return
    number = output.number
    each = f", {number(energy.energy_j / dumps)} J a dump" if dumps else ""
    power = f" ({number(energy.power_w_mean)} W)"
    yield kind, f"{number(energy.energy_j)} J{power}{each}, {energy.facts.name}{troubles}"
    if energy.facts.estimate:
        ends = energy.range_j
        between = f"{number(ends[0])} to {number(ends[1])} J possible; " if ends else ""
        yield "", f"{between}{energy.facts.what}"


def _spread(spread: Spread) -> str:
    parts = ((name, getattr(spread, name)) for name in ("mean", "p99", "max"))
    return ", ".join(f"{name} {output.number(1e3 * v)} ms" for name, v in parts if v is not None)
