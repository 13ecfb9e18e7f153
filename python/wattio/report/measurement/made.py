"""How a measurement was made: everything that one needs to judge it and to make it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattio.analysis.peak import QUANTITIES
from wattio.peak import advice
from wattio.report.measurement.gather import Measured
from wattio.report.measurement.power import span_text
from wattio.report.page import Block, Facts, Folded, Heading, Items, Section, code, lines
from wattio.report.phrases import number, percent


def section(found: Measured) -> Section:
    """The last section of the page."""
    systems: dict[str, Any] = {}
    workloads: dict[str, Any] = {}
    for item in found.iterations:
        record = found.records.get(item.identity)
        if record is None:
            continue
        systems.setdefault(f"System {item.run.system}", record.system)
        if record.module is not None:
            name = f"Workload {item.run.subject} ({record.module})"
            workloads.setdefault(name, record.workload)
    blocks: list[Block] = [Facts(_entries(found))]
    for name, facts in (systems | workloads).items():
        blocks += [Heading(name), Facts(_facts(facts))]
    if found.peak_text:
        blocks += [Heading("Theoretical peak"), Items(_limits(found))]
        blocks.append(Folded("Its parts", found.peak_text))
    resolved = found.folder.path.joinpath("resolved.toml").read_text(encoding="utf-8")
    blocks += [
        Heading("Study"),
        Folded("The study file as given", found.folder.public_study_text()),
    ]
    return Section("How this was made", [*blocks, Folded("With every default", resolved)])


def _entries(found: Measured) -> list[tuple[str, str]]:
    study, rules, machine = found.study.study, found.study.rules, found.machine
    scale = found.folder.inputs().get("scale")
    file = Path(str(machine.get("study_file", "study.toml"))).name
    command = code(f"wattio run {file}{f' --scale {scale}' if scale else ''}")
    sessions = len({record.session for record in found.records.values()})
    seed = f" with seed {study.seed}" if study.order == "random" else ""
    dropped = [record.caches_dropped for record in found.records.values() if record.module]
    where = "before each phase" if dropped and all(dropped) else "not before every phase"
    caches = f"were dropped {where}" if study.drop_caches else "were kept"
    settle = span_text(study.settle) if study.settle else "no time"
    commit = f" at {machine['git_commit']}" if machine["git_commit"] else ""
    libraries = "".join(f", {name} {it}" for name, it in machine.get("libraries", {}).items())
    processor = f"{machine['cores']} x {machine['processor'] or 'unknown processor'}"
    entries = [
        (
            "Command",
            command
            + " (the study file is kept as study.toml, with every default as resolved.toml)",
        ),
        (
            "Iterations",
            f"{study.repetitions} of each run, in {study.order} order{seed}, in {sessions}"
            f" session{'s' * (sessions != 1)}; an INVALID one is repeated up to"
            f" {study.repeat_invalid} time{'s' * (study.repeat_invalid != 1)}",
        ),
    ]
    knobs = [f"{knob.name}: {', '.join(map(str, knob.values))}" for knob in found.study.knob]
    if knobs:
        entries.append(("Knobs", lines(knobs)))
    if study.warm_up:
        text = f"each workload {study.warm_up} time{'s' * (study.warm_up != 1)} on a system that"
        entries.append(("Warm-up", f"{text} just came up, not counted"))
    return [
        *entries,
        ("Before a phase", f"{settle} to settle; caches {caches}"),
        (
            "Rules",
            f"WARN below {rules.samples_min} samples in a phase or one a second, or where others"
            f" took more than {percent(rules.others_share_max)} of the cores; INVALID for a gap"
            f" above {rules.gap_intervals:g} intervals, more than"
            f" {percent(rules.missing_share_max)} of samples missing, {rules.frozen_periods}"
            " periods of one value while the load changes, a jump of the clock above"
            f" {rules.clock_jump:g} s",
        ),
        (
            "Statistics",
            "means and sample deviations over repetitions; intervals are 95 % intervals of the"
            " mean by Student's t; ratios are tested by Welch's t test of their logarithm, and"
            " differ where p, corrected for all pairs (Bonferroni), is below 0.05",
        ),
        ("Software", f"wattio {machine['wattio']}{commit}, Python {machine['python']}{libraries}"),
        (
            "Machine",
            f"{processor}, {_gib(machine.get('memory_bytes'))} memory, {machine['kernel']}",
        ),
        ("Begun", machine["started_utc"]),
    ]


def _limits(found: Measured) -> list[str]:
    """The theoretical peak, quantity by quantity, and which part limits it."""
    peak = found.book.peak
    limits = [] if peak is None else [peak.limit(quantity) for quantity in QUANTITIES]
    texts = []
    for limit in limits:
        if limit is not None:
            what = f"{advice.spoken(limit.quantity)}: {advice.figure(limit.mean)}"
            what = f"{what} {advice.unit(limit.quantity)}"
            texts.append("; ".join([what, *advice.sentences(limit)]))
    return texts


def _gib(size: object) -> str:
    return f"{number(float(size) / 2**30)} GiB" if isinstance(size, int | float) else "unknown"


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Facts as name and text."""
    found = []
    for key, value in facts.items():
        if key == "hosts" and isinstance(value, dict):
            found.append((key, _hosts(value)))
            continue
        plain = isinstance(value, str | int | float)
        text = str(value) if plain else json.dumps(value, ensure_ascii=False, default=str)
        if (
            key.endswith("_bytes")
            and isinstance(value, int | float)
            and not isinstance(value, bool)
        ):
            text = f"{value:,.0f} ({_gib(value)})"
        found.append((key.replace("_", " "), text))
    return found


def _hosts(hosts: Mapping[str, Any]) -> str:
    """Other machines that took part, those that are alike together."""
    alike: dict[str, list[str]] = {}
    for name, facts in hosts.items():
        told = facts if isinstance(facts, dict) else {}
        what = f"{told.get('cores')} cores, {_gib(told.get('memory_bytes'))} memory"
        alike.setdefault(f"{what}, {told.get('kernel')}", []).append(name)
    return "; ".join(f"{', '.join(names)}: {what}" for what, names in alike.items())
