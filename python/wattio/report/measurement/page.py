"""The page of a measurement's report, and the files beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wattio.analysis.peak import QUANTITIES
from wattio.errors import ResultError
from wattio.peak import advice
from wattio.report import rendering
from wattio.report.drawing import Drawn
from wattio.report.measurement import course, figures, phrases, power, tables
from wattio.report.measurement.gather import Measured, WorkloadPart, gather
from wattio.report.measurement.power import Seen, span_text
from wattio.report.phrases import number

_EVENTS_SHOWN = 30
_TEXT_LINES = 3


def make(path: Path, target: Path) -> Path:
    """Write the report of a measurement into a folder; return the page. Raises ResultError."""
    found = gather(path)
    seen = power.see(found)
    page = target / "index.html"
    try:
        target.mkdir(exist_ok=True)
        every = [row for part in found.workloads for phase in part.phases for row in phase.rows]
        table = tables.of_metrics([*found.idle, *every])
        rendering.write_table(target / "table.csv", table)
        rendering.write_table(target / "verdicts.csv", tables.of_verdicts(found))
        view = _view(found) | {
            "parts": [_part(part, seen, found, target) for part in found.workloads],
            "sessions": _written(course.sessions(seen, found), "", target),
            "sessions_left": max(0, len(seen.sessions) - power.SESSIONS_MAX),
            "invalid": _written([course.of_invalid(seen, found)], "", target),
        }
        template = rendering.environment().get_template("measurement/page.html.j2")
        page.write_text(template.render(view), encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{target}: cannot be written: {error.strerror}") from error
    return page


def _written(drawn: list[Drawn] | list[Drawn | None], prefix: str, target: Path) -> list[Any]:
    """Write the figures that there are; as the page holds them."""
    kept = [figure for figure in drawn if figure is not None]
    for figure in kept:
        rendering.write_figure(target, prefix + figure.name, figure)
    return rendering.embedded(kept)


def _part(part: WorkloadPart, seen: Seen, found: Measured, target: Path) -> dict[str, Any]:
    """What the template shows of one workload."""
    slug = rendering.slug(part.name)
    drawn: list[Drawn | None] = [*figures.of_workload(part, found)]
    drawn.append(power.boxes(part, seen, found))
    drawn.append(course.of_workload(part.name, seen, found))
    return {
        "name": part.name,
        "slug": slug,
        "axis": phrases.axis_text(part),
        "headline": phrases.headline(part, found),
        "details": phrases.details(part, found),
        "figures": _written(drawn, f"{slug}-", target),
        "phases": [
            {"name": phase.name, "tables": tables.of_phase(phase, found)} for phase in part.phases
        ],
    }


def _view(found: Measured) -> dict[str, Any]:
    """What the template shows beside the workloads."""
    usable = any(item.usable for item in found.last if item.run.subject != "idle")
    events = [
        (session, event)
        for session in found.folder.sessions()
        for event in found.folder.events(session)
    ]
    return {
        "study": found.study.study,
        "name": found.folder.name,
        "complete": found.complete,
        "usable": usable,
        "estimated": found.estimated,
        "counts": phrases.counts(found),
        "idle": tables.idle(found) if found.idle else None,
        "reasons": phrases.reasons(found),
        "runs": tables.of_runs(found),
        "rows_shown": tables.ROWS_SHOWN,
        "meters": _meters(found),
        "subtract": found.study.subtract,
        "events": [
            (session, _clock(event.at.utc_ns), event.label, event.kind, event.text)
            for session, event in events[:_EVENTS_SHOWN]
        ],
        "events_all": len(events),
        "machine": found.machine,
        "made": _made(found),
    }


def _meters(found: Measured) -> list[dict[str, Any]]:
    """Each meter of the study: what it is, what it covers, and what it counts for."""
    shown = []
    for entry in found.study.meter:
        facts = found.folder.facts(found.records.values()).get(entry.shown)
        period_s = entry.period or (facts.period_s if facts else None)
        lag_s = entry.lag if entry.lag is not None else (facts.lag_s if facts else None)
        resolution_w = facts.resolution_w if facts else None
        guess = found.is_estimate(entry)
        known = facts.accuracy_class if facts else "unknown"
        shown.append(
            {
                "label": entry.shown,
                "name": facts.name if facts else entry.name.partition(":")[0],
                "what": facts.what if facts else "it was never read",
                "covers": ", ".join(entry.covers),
                "role": entry.role,
                "kind": "ESTIMATE" if guess else "measured",
                "accuracy": entry.accuracy_class or known,
                "period": "" if period_s is None else span_text(period_s),
                "lag": "" if lag_s is None else span_text(lag_s) if lag_s else "none",
                "resolution": "" if resolution_w is None else f"{number(resolution_w)} W",
                "untried": facts.untried if facts else None,
            }
        )
    return shown


def _made(found: Measured) -> dict[str, Any]:
    """How it was made: everything that one needs to judge it and to make it again."""
    systems: dict[str, Any] = {}
    workloads: dict[str, Any] = {}
    for item in found.iterations:
        record = found.records[item.identity]
        systems.setdefault(item.run.system, record.system)
        if record.module is not None:
            workloads.setdefault(f"{item.run.subject} ({record.module})", record.workload)
    dropped = [record.caches_dropped for record in found.records.values() if record.module]
    head = found.study.study
    return {
        "study_file": Path(str(found.machine.get("study_file", "study.toml"))).name,
        "scale": found.folder.inputs().get("scale"),
        "systems": [(name, _facts(facts)) for name, facts in systems.items()],
        "workloads": [(name, _facts(facts)) for name, facts in workloads.items()],
        "knobs": [f"{knob.name}: {', '.join(map(str, knob.values))}" for knob in found.study.knob],
        "rules": found.study.rules,
        "settle": span_text(head.settle) if head.settle else "no time",
        "dropped": "before each phase" if dropped and all(dropped) else "not before every phase",
        "sessions": len({record.session for record in found.records.values()}),
        "peak": found.peak_text,
        "limits": _limits(found),
        "study_text": found.folder.public_study_text(),
        "resolved": found.folder.path.joinpath("resolved.toml").read_text(encoding="utf-8"),
        "libraries": found.machine.get("libraries", {}),
        "memory_gib": _gib(found.machine.get("memory_bytes")),
    }


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


def _clock(utc_ns: int) -> str:
    return datetime.fromtimestamp(utc_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _gib(size: object) -> str:
    return f"{number(float(size) / 2**30)} GiB" if isinstance(size, int | float) else "unknown"


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Facts as name, text, and whether the text is long."""
    found = []
    for key, value in facts.items():
        plain = isinstance(value, str | int | float)
        text = str(value) if plain else json.dumps(value, ensure_ascii=False, default=str)
        if (
            key.endswith("_bytes")
            and isinstance(value, int | float)
            and not isinstance(value, bool)
        ):
            text = f"{value:,.0f} ({_gib(value)})"
        found.append((key.replace("_", " "), text, text.count("\n") >= _TEXT_LINES))
    return found
