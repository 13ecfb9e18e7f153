"""How a simulation's result was made: everything to judge it by and to make it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wattio.report.page import Block, Facts, Folded, Heading, Items, Section, Text, code, lines
from wattio.report.phrases import setting
from wattio.report.simulation.gather import Result
from wattio.results.runs import Run

PHASES_SHOWN = 8
"""Of a load with more phases the page names the first ones."""


def section(result: Result) -> Section:
    """The last section of the page."""
    study, machine = result.resolved["study"], result.machine
    kept = "(the study file is kept beside this report as study.toml, with every default as"
    seeds = ", ".join(map(str, study["seeds"]))
    again = f", {study['repetitions']} repetitions each" if study["repetitions"] > 1 else ""
    plural = "s" if len(study["seeds"]) > 1 else ""
    commit = f" at {machine['git_commit']}" if machine["git_commit"] else ""
    command = code(f"wattio run {Path(machine['study_file']).name}")
    entries = [
        ("Command", command + f" {kept} resolved.toml)"),
        (
            "Runs",
            f"{len(result.iterations)}, with seed{plural} {seeds}{again}; curves over time are"
            " those of the first seed",
        ),
        ("Loads", lines([_load_text(name, result) for name in result.inputs["loads"]])),
        (
            "Windows",
            f"{study['window']} each; a bound is checked over the run as a whole, and window by"
            " window against native's same window",
        ),
        ("Policies", lines([_policy_text(run) for run in _policies(result)])),
        ("Software", f"wattio {machine['wattio']}{commit}, Python {machine['python']}, "
         f"{machine['kernel']}"),
        (
            "Machine",
            f"{machine['cores']} x {machine['processor'] or 'unknown processor'}; results do not"
            " depend on it",
        ),
        ("Begun", machine["started_utc"]),
    ]  # fmt: skip
    blocks: list[Block] = [Facts(entries)]
    for name, description in result.inputs["servers"].items():
        blocks += _server(name, description)
    return Section("How this was made", [*blocks, *_remarks(result)])


def _server(name: str, description: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = [Heading(f"Server {Path(name).name}")]
    if description.get("title"):
        blocks.append(Text(description["title"]))
    assumed = [
        text if isinstance(text, str) else json.dumps(text)
        for text in description.get("assumptions") or []
    ]
    if assumed:
        text = "What is assumed about it, because it is not published or not known:"
        blocks += [Text(text), Items(assumed)]
    return [*blocks, Folded("The whole description", json.dumps(description, indent=2))]


def _remarks(result: Result) -> list[Block]:
    found = [
        f"{verdict.verdict}, {item.run.name}, seed {item.seed}: {verdict.reason}"
        for item in result.iterations
        for verdict in item.verdicts
        if verdict.verdict != "VALID"
    ]
    if not found:
        return []
    text = "WARN: used in the means. INVALID: kept, shown here, not used."
    return [Heading("Runs with a remark"), Text(text, "note"), Items(found)]


def _policies(result: Result) -> list[Run]:
    runs = {row.run.name: row.run for part in result.loads for row in part.rows}
    return list({run.condition: run for run in runs.values()}.values())


def _policy_text(run: Run) -> str:
    settings = ", ".join(f"{key} = {setting(value)}" for key, value in run.settings.items())
    return f"{run.condition}: {settings}" if settings else run.condition


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
    if entry.get("bounds"):
        text += f"; every policy is held to {' and '.join(entry['bounds'])} in place of its plf"
    return f"{text}; warm-up {entry['warmup']}, not counted"


def _phase_text(phase: dict[str, Any]) -> str:
    rate = f"pressure {phase['pressure']:g}" if "pressure" in phase else f"{phase['iops']:g} IOPS"
    size = f" of {phase['io_bytes'] / 1024:g} KiB" if "io_bytes" in phase else ""
    return f"{phase['span_s']:g} s of {phase['pattern']}{size} at {rate}"
