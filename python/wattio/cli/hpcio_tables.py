"""What `wattio hpcio run` prints: a run as a table, or as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from wattio.cli import output
from wattio.kinds.measurement.single import Energy
from wattio.workloads.hpcio import Options
from wattio.workloads.hpcio_output import Report, Spread

RESULT = "result.json"
"""What `--json` prints, in the folder of the run: `wattio hpcio calibrate` reads it."""

_OPTIONS = ("when_full", "compression", "checksum", "sync")
"""The middleware's options that a result tells beside the buffer."""


def show(report: Report, energies: list[Energy], found: dict[str, Any], *, as_json: bool) -> None:
    """Print a run, where its dumps are, and what failed; `found` is the run as plain data."""
    if as_json:
        output.print_json(found)
    else:
        output.console().print(_table(report, energies))
        _say(f"dumps: {found['dumps_folder']}")
    for text in report.errors():
        _say(f"FAILED: {text}")


def keep(found: dict[str, Any], raw: Path) -> None:
    """Leave a run's plain data in its folder, all of it or none. Raises OSError.

    The disk may be full of the run's dumps.
    """
    part = raw / f"{RESULT}.part"
    try:
        part.write_text(json.dumps(found, allow_nan=False) + "\n", encoding="utf-8")
        part.replace(raw / RESULT)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def told(report: Report, energies: list[Energy], options: Options) -> dict[str, Any]:
    """A run as plain data, without what is not known; times are in seconds."""
    account, checks = report.account, report.checks
    blocked, slowest = report.blocked_s, report.blocked_s_slowest
    found = {
        "approach": account.approach,
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
        "energy": [one.as_dict(report.dumps_whole) for one in energies],
        "mass_change": checks.mass_change,
        "bubble_height_m_first": checks.before.bubble_height_m,
        "bubble_height_m_last": checks.after.bubble_height_m,
        "state_fingerprint": f"{checks.after.fingerprint:016x}",
    }
    return {name: value for name, value in found.items() if value is not None}


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
    if report.core_share is not None:
        yield "cores", f"{100 * report.core_share:g} % of one for each rank"
    yield "grid", f"{grid.nx} x {grid.ny} x {grid.nz} cells, {report.plan.size}"
    drain = f"{number(1e3 * report.drain_s)} ms of it after the last step"
    yield "wall time", f"{number(report.seconds)} s, {drain}"
    yield "step", _spread(report.step_s)
    yield "dumps", f"{report.dumps} of {report.dump_bytes / 1e6:,.3g} MB"
    if report.dumps:
        yield "blocked by a dump", _spread(report.blocked_s)
        yield "buffer", f"{account.stalls} stalls, {account.drops} dumps dropped"
        yield "written", f"{account.bytes / 1e6:,.4g} MB in {account.files} files"
    cpu = f"{number(report.cpu_s_computing)} s computing, {number(report.cpu_s_writing)} s writing"
    yield "processor time", cpu
    for energy in energies:
        yield _energy_row(energy, report.dumps_whole)
    change = report.checks.mass_change
    yield "mass", "-" if change is None else f"changed by {change:.1e} of itself"
    heights = (report.checks.before.bubble_height_m, report.checks.after.bubble_height_m)
    yield "bubble", f"from {number(heights[0])} m to {number(heights[1])} m"
    yield "state", f"{report.checks.after.fingerprint:016x}"


def _energy_row(energy: Energy, dumps: int) -> tuple[str, str]:
    kind = "energy, ESTIMATE" if energy.facts.estimate else "energy"
    troubles = "".join(f"; {text}" for text in energy.troubles)
    if energy.energy_j is None:
        return kind, f"unknown by {energy.facts.name}{troubles}"
    each = f", {output.number(energy.energy_j / dumps)} J a dump" if dumps else ""
    power = f" ({output.number(energy.power_w_mean)} W)"
    return kind, f"{output.number(energy.energy_j)} J{power}{each}, {energy.facts.name}{troubles}"


def _spread(spread: Spread) -> str:
    parts = ((name, getattr(spread, name)) for name in ("mean", "p99", "max"))
    return ", ".join(f"{name} {output.number(1e3 * v)} ms" for name, v in parts if v is not None)


def _say(message: str) -> None:
    output.messages().print(message, markup=False, highlight=False, soft_wrap=True)
