"""The page of a report, and the files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wattio.errors import ResultError
from wattio.kinds.simulation import overall
from wattio.report import rendering
from wattio.report.drawing import Drawn, Table
from wattio.report.simulation import figures, phrases
from wattio.report.simulation.gather import LoadPart, Result, gather
from wattio.results.summary import Row
from wattio.simulator.policies import BOUND_BY, REFERENCE

COLUMNS = (
    ("power", "power_w_mean"),
    ("saving", "saving_share"),
    ("IOPS/W", "iops_per_watt"),
    ("IOPS/W, relative", "relative_iops_per_watt"),
    ("mean latency", "latency_us_mean"),
    ("mean latency, relative", "relative_latency_us_mean"),
    ("p99 latency", "latency_us_p99"),
    ("p99 latency, relative", "relative_latency_us_p99"),
    ("background work, relative", "relative_background_rate"),
    ("share of oracle's saving", "captured_share"),
    ("windows over bound", "bound_violation_share"),
)
"""Columns of the CSV of a load's table, by metric."""


DRAWN_MAX = 12
"""Of a study with more loads the page shows tables only: figures of each would be megabytes."""


PHASES_SHOWN = 8
"""Of a load with more phases the page names the first ones."""


def make(path: Path, target: Path) -> Path:
    """Write the report of a result folder into a folder; return the page. Raises ResultError."""
    result = gather(path)
    parts = []
    try:
        target.mkdir(exist_ok=True)
        for part in result.loads:
            drawn = figures.of_load(part) if len(result.loads) <= DRAWN_MAX else []
            slug = rendering.slug(part.name)
            rendering.write_table(target / f"{slug}-table.csv", _table(part))
            for figure in drawn:
                rendering.write_figure(target, f"{slug}-{figure.name}", figure)
            parts.append(_part_view(part, drawn, slug))
        page = target / "index.html"
        page.write_text(_render(result, parts), encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{target}: cannot be written: {error.strerror}") from error
    return page


def _render(result: Result, parts: list[dict[str, Any]]) -> str:
    return (
        rendering.environment()
        .get_template("simulation/page.html.j2")
        .render(
            study=result.resolved["study"],
            name=result.folder.name,
            complete=result.complete,
            parts=parts,
            overall=overall.of([row for part in result.loads for row in _rows(part)]),
            made=_made(result),
            machine=result.machine,
        )
    )


def _part_view(part: LoadPart, drawn: list[Drawn], slug: str) -> dict[str, Any]:
    """What the template shows of one load."""
    return {
        "name": part.name,
        "slug": slug,
        "server": part.server,
        "headline": phrases.headline(part),
        "others": phrases.others(part),
        "rows": [
            {"view": row, "reference": row.run.policy == REFERENCE, "kept": row.bound_kept}
            for row in (curve.row for curve in part.curves)
        ],
        "has_oracle": any(curve.row.run.policy == BOUND_BY for curve in part.curves),
        "subject": part.subject,
        "figures": rendering.embedded(drawn),
    }


def _made(result: Result) -> dict[str, Any]:
    """How the result was made: everything that one needs to judge it and to make it again."""
    verdicts = [
        (item.run.name, item.seed, verdict.verdict, verdict.reason)
        for item in result.iterations
        for verdict in item.verdicts
        if verdict.verdict != "VALID"
    ]
    servers = [
        {
            "name": Path(name).name,
            "title": description.get("title", ""),
            "assumptions": _assumptions(description),
            "text": json.dumps(description, indent=2),
        }
        for name, description in result.inputs["servers"].items()
    ]
    policies = {row.run.name: row.run for part in result.loads for row in _rows(part)}
    return {
        "servers": servers,
        "loads": [_load_text(name, result) for name in result.inputs["loads"]],
        "policies": list({run.condition: run for run in policies.values()}.values()),
        "verdicts": verdicts,
        "iterations": len(result.iterations),
        "study_file": Path(result.machine["study_file"]).name,
    }


def _rows(part: LoadPart) -> list[Row]:
    return [curve.row for curve in part.curves] + part.sweep


def _assumptions(description: dict[str, Any]) -> list[str]:
    found = description.get("assumptions") or []
    return [text if isinstance(text, str) else json.dumps(text) for text in found]


def _load_text(name: str, result: Result) -> str:
    """One line about where a load comes from."""
    facts = result.inputs["loads"][name]
    entry = next(entry for entry in result.resolved["load"] if entry["name"] == name)
    request = facts["request"]
    text = f"{name}: "
    if facts["kind"] == "trace":
        digest = facts["identity"]["trace"][:12]
        scale = f"rate x {request['rate_scale']:g}, time x {request['time_scale']:g}"
        text += f"trace {Path(request['trace']).name} (SHA-256 begins {digest}), {scale}"
    elif facts["kind"] == "profile":
        profile = facts["profile"]
        text += (
            f"profile {profile['name']}, {profile['span_s'] / 3600:g} h in"
            f" {profile['simulated_s']:g} s simulated; one simulated second stands for"
            f" {profile['compression']:g} s, the policies' own timers are not scaled"
        )
        if len({segment["span_s"] for segment in profile["segments"]}) > 1:
            text += "; segments span unequal times, so means are over simulated time, not the day"
    elif facts["kind"] == "phases":
        phases = request["phases"]
        shown = phases if len(phases) <= PHASES_SHOWN else phases[:PHASES_SHOWN]
        text += "phases of " + ", ".join(_phase_text(phase) for phase in shown)
        if len(shown) < len(phases):
            text += f" and so on, {len(phases)} in all"
    else:
        level = f"pressure {request['pressure']:g}" if "pressure" in request else ""
        text += f"pattern {request['pattern']}, {level or format(request['iops'], 'g') + ' IOPS'}"
        text += ", open arrivals" if request.get("open") else ", closed-loop clients"
    return f"{text}; warm-up {entry['warmup']}, not counted"


def _phase_text(phase: dict[str, Any]) -> str:
    rate = f"pressure {phase['pressure']:g}" if "pressure" in phase else f"{phase['iops']:g} IOPS"
    size = f" of {phase['io_bytes'] / 1024:g} KiB" if "io_bytes" in phase else ""
    return f"{phase['span_s']:g} s of {phase['pattern']}{size} at {rate}"


def _table(part: LoadPart) -> Table:
    header = ["policy", "iterations", *(metric for _, metric in COLUMNS), "bound_plf", "bound_kept"]
    table: Table = [header]
    for row in _rows(part):
        values = ["" if row.mean(m) is None else row.mean(m) for _, m in COLUMNS]
        kept = "" if row.bound_kept is None else str(row.bound_kept).lower()
        line = [row.run.condition, row.used, *values, row.run.plf, kept]
        if line not in table:
            table.append(line)
    return table
