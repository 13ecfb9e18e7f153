"""The page of a measurement's report: what it cost, what won, and whether it may be believed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from wattio.report import output
from wattio.report.measurement import (
    course,
    figures,
    frequency,
    governed,
    made,
    node_figures,
    nodes,
    overview,
    phrases,
    power,
    servers,
    tables,
    winners,
)
from wattio.report.measurement.gather import Measured, WorkloadPart, gather
from wattio.report.measurement.power import Seen, span_text
from wattio.report.page import (
    Block,
    Cell,
    Cells,
    Heading,
    Items,
    Page,
    Section,
    Text,
    as_data,
    gallery,
    grid,
    write,
)
from wattio.report.phrases import number

_EVENTS_SHOWN = 30


def make(path: Path, target: Path) -> Path:
    """Write the report of a measurement into a folder; return the page. Raises ResultError."""
    found = gather(path)
    seen = power.see(found)
    study = found.study.study
    every = [row for part in found.workloads for phase in part.phases for row in phase.rows]
    sections = [
        *winners.section(found),
        *(glance := overview.section(found)),
        *frequency.section(found),
        *governed.section(found),
        *(_workload(part, seen, found) for part in found.workloads),
        *_idle(found),
        *_sessions(seen, found),
        _verdicts(seen, found),
        _meters(found),
        made.section(found),
    ]
    tables_ = {"table": tables.of_metrics([*found.idle, *every])}
    tables_ |= {"verdicts": tables.of_verdicts(found)}
    if len(own := governed.table(found)) > 1:
        tables_["governed"] = own
    if glance:
        tables_["overview"] = overview.table(found)
    if nodes.of_study(found):
        tables_["nodes"] = nodes.table(found)
    page = Page(
        study.name,
        f"{study.name} · {found.folder.name}",
        study.description or "What was measured, and what it cost in energy",
        _lead(found),
        sections,
        tables_,
    )
    return write(target, page)


def _lead(found: Measured) -> list[Block]:
    blocks: list[Block] = []
    if not found.complete:
        text = "This study is not complete: it was stopped before all of its iterations had ended."
        blocks.append(Text(f"{text} What is below is of those that did.", "warning"))
    if not any(item.usable for item in found.last if item.run.subject != "idle"):
        text = "No iteration may be used: all of them are INVALID, or none has ended. There are no"
        blocks.append(Text(f"{text} means; the reasons are under Verdicts.", "warning"))
    # Workloads of one setting each are conditions, and so are servers: what won says it all.
    single = all(len(phase.rows) == 1 for part in found.workloads for phase in part.phases)
    won = (one.sentence() for one in winners.contests(found))
    told = list(won if single else servers.sentences(found))
    for text in told[: phrases.WORKLOADS_TOLD]:
        blocks.append(Text(text, "headline"))
    for part in [] if told else found.workloads[: phrases.WORKLOADS_TOLD]:
        headline, details = phrases.headline(part, found), phrases.details(part, found)
        blocks.append(Text(headline, "headline", details))
    left = len(told or found.workloads) - phrases.WORKLOADS_TOLD
    if left > 0:
        blocks.append(Text(f"{left} more are below.", "note"))
    text = phrases.counts(found)
    if found.estimated:
        text += " ESTIMATE: no meter measured the total of power and energy, or not all of it; a"
        text += " model says what it may have been. Rates and times are measured."
    return [*blocks, Text(text, "note")]


def _workload(part: WorkloadPart, seen: Seen, found: Measured) -> Section:
    drawn = [*figures.of_workload(part, found), power.boxes(part, seen, found)]
    drawn.append(course.of_workload(part.name, seen, found))
    blocks: list[Block] = gallery(drawn, f"{output.slug(part.name)}-")
    blocks += node_figures.of_workload(part, seen, found)
    for phase in part.phases:
        blocks += [Heading(f"{part.name}: {phase.name}"), *tables.of_phase(phase, found)]
    text = "Means over VALID and WARN iterations, ± sample deviation. "
    if found.study.subtract:
        taken = ", ".join(f"{e.device} ({e.power:g} W: {e.source})" for e in found.study.subtract)
        text += f"Net is less {taken}, an estimate: a device under load draws more than what is"
        text += " taken off. "
    text += "Small figures under a meter are its share of the total; those beside the total are no"
    text += " part of it."
    if found.estimated:
        text += " An estimate is by its model's coefficients as they stand; what they may be is in"
        text += " what is said of differences."
    blocks.append(Text(text, "note"))
    blocks.append(Text(as_data("table.csv", "As data, with 95 % intervals (Student's t)"), "note"))
    return Section(part.name, blocks, phrases.axis_text(part))


def _idle(found: Measured) -> list[Section]:
    if not found.idle:
        return []
    text = "Ready-idle: the system is served and nothing is asked of it. Small figures are how long"
    text += " it was watched. Capacity per watt is the raw capacity over the mean of the idle power"
    text += " before and after."
    return [Section("Ready-idle and capacity", [tables.idle(found), Text(text, "note")])]


def _sessions(seen: Seen, found: Measured) -> list[Section]:
    blocks = gallery(course.sessions(seen, found))
    left = len(seen.sessions) - power.SESSIONS_MAX
    if left > 0:
        text = f"{left} more sessions are not drawn; their samples are in samples/."
        blocks.append(Text(text, "note"))
    return [Section("Power over time", blocks)] if blocks else []


def _verdicts(seen: Seen, found: Measured) -> Section:
    text = f"{phrases.counts(found)} WARN: can be used, with care. INVALID: kept and shown, never"
    blocks: list[Block] = [Text(f"{text} averaged.", "note")]
    rows: list[Cells] = []
    for reason in phrases.reasons(found):
        phases = ", ".join(reason.phases)
        rows.append(
            [
                Cell(reason.verdict, look=reason.verdict),
                (reason.code, reason.meaning),
                str(len(reason.iterations)),
                reason.example,
                (reason.where, f"in {phases}" if phases else ""),
            ]
        )
    texts = [Cell(name, look="text") for name in ("reason", "for example", "where")]
    if rows:
        columns: Cells = ["verdict", texts[0], "iterations", *texts[1:]]
        blocks.append(grid("Reasons", columns, rows))
    blocks += gallery([course.of_invalid(seen, found)])
    columns = ["run", "VALID", "WARN", "INVALID", ("earlier attempts", "INVALID, repeated")]
    rows = []
    why = {kind: tables.codes(found, kind) for kind in ("WARN", "INVALID")}
    for run, (valid, warn, invalid, again) in tables.of_runs(found)[: tables.ROWS_SHOWN]:
        reasons = {kind: ", ".join(why[kind].get(run, [])) for kind in why}
        bad = Cell(str(invalid), reasons["INVALID"], "INVALID") if invalid else "0"
        doubtful = (str(warn), reasons["WARN"]) if warn else "0"
        rows.append([run, str(valid), doubtful, bad, str(again)])
    blocks += [Heading("Iterations of each run"), grid("Iterations of each run", columns, rows)]
    data = as_data("verdicts.csv", "Every verdict of every iteration")
    return Section("Verdicts", [*blocks, Text(data, "note")])


def _meters(found: Measured) -> Section:
    names = ("kind", "role", "covers", "accuracy class", "read every", "lag", "resolution")
    columns: Cells = ["meter", *(Cell(name, look="text") for name in names)]
    rows: list[Cells] = []
    told = []
    for entry in found.study.meter:
        facts = found.folder.facts(found.records.values()).get(entry.shown)
        period_s = entry.period or (facts.period_s if facts else None)
        lag_s = entry.lag if entry.lag is not None else (facts.lag_s if facts else None)
        resolution_w = facts.resolution_w if facts else None
        rows.append(
            [
                (entry.shown, facts.name if facts else entry.name.partition(":")[0]),
                "ESTIMATE" if found.is_estimate(entry) else "measured",
                entry.role,
                ", ".join(entry.covers),
                entry.accuracy_class or (facts.accuracy_class if facts else "unknown"),
                "" if period_s is None else span_text(period_s),
                "" if lag_s is None else span_text(lag_s) if lag_s else "none",
                "unknown" if resolution_w is None else f"{number(resolution_w)} W",
            ]
        )
        untried = f" (untried: {facts.untried})" if facts and facts.untried else ""
        told.append(f"{entry.shown}: {facts.what if facts else 'it was never read'}{untried}")
    text = "The energy of a phase is the sum over the meters whose role is total; those beside it"
    blocks: list[Block] = [grid("Meters", columns, rows), Items(told)]
    return Section("Meters", [*blocks, Text(f"{text} are never added.", "note"), *_events(found)])


def _events(found: Measured) -> list[Block]:
    events = [
        (session, event)
        for session in found.folder.sessions()
        for event in found.folder.events(session)
    ]
    if not events:
        return [
            Text("Nothing happened to a meter or the clock that the recorder would note.", "note")
        ]
    names = ("time (UTC)", "meter", "event", "what was seen")
    rows = [
        [session, _clock(event.at.utc_ns), event.label, event.kind, event.text]
        for session, event in events[:_EVENTS_SHOWN]
    ]
    shown = grid("Events", ["session", *(Cell(name, look="text") for name in names)], rows)
    blocks: list[Block] = [Heading("What happened to meters and clock"), shown]
    if len(events) > len(rows):
        text = f"The first {len(rows)} of {len(events)}; all are in samples/*.events.jsonl."
        blocks.append(Text(text, "note"))
    return blocks


def _clock(utc_ns: int) -> str:
    return datetime.fromtimestamp(utc_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
