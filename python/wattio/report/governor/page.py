"""The page of a governor's report: what it saved, or would have, and how the bound fared."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

from wattio.analysis.price import Price
from wattio.report.governor import figures, phrases
from wattio.report.governor.gather import Governed, gather
from wattio.report.governor.phrases import count, duration
from wattio.report.page import (
    Block,
    Cell,
    Cells,
    Facts,
    Folded,
    Heading,
    Items,
    Page,
    Section,
    Text,
    as_data,
    code,
    gallery,
    grid,
    lines,
    write,
)
from wattio.report.phrases import bracketed, number, percent, quantity, setting
from wattio.report.plots import Table

PRICE = Price()

_STATES = ("unstable", "stable", "idle")

_COUNTS = (
    ("values written to knobs", "knob_writes"),
    ("values that could not be read or written", "knob_failures"),
    ("places left to somebody else", "foreign_changes"),
    ("samples that could not be had", "source_errors"),
    ("returns from saving to full speed", "flaps"),
    ("openings of the circuit breaker", "breaker_trips"),
)

_SHADOW = """Shadow mode: nothing was turned. Latency, load and utilisation were measured at the \
speed that the host had anyway; settings, latency under them and what they save are estimates."""
_ACTED = """The governor acted on this host. Latency was measured; what would have been drawn at \
full speed is an estimate, as nobody was there to measure it."""
_BY_TURNS = """The governor acted on this host, by turns with full speed. Latency was measured at \
both; what would have been drawn at full speed while it saved is an estimate."""


def make(path: Path, target: Path) -> Path:
    """Write the report of a governor into a folder; return the page. Raises ResultError."""
    found = gather(path)
    machine = found.machine
    what = f"What {machine.policy} {'would save' if found.shadow else 'saved'} on {machine.name}"
    warnings = [
        Text(f"The numbers below must not be used. {verdict.reason}.", "warning")
        for verdict in found.recorded.verdicts
        if verdict.verdict == "INVALID"
    ]
    # What was measured against full speed stands before what a model says of all the time.
    by_turns, estimated = phrases.by_turns(found), phrases.headline(found)
    told = [*([estimated] if by_turns else []), *phrases.details(found)]
    how = _SHADOW if found.shadow else _BY_TURNS if by_turns else _ACTED
    note = f"{how} Whatever rests on a model is called an estimate."
    over_time = gallery(figures.of_result(found))
    sections = [_numbers(found), _verdicts(found), _made(found)]
    if over_time:
        sections.insert(1, Section("Over time", over_time))
    page = Page(
        f"{machine.name} · {machine.program} {machine.mode}",
        f"{machine.program} {machine.mode} · {machine.name} · {found.folder.name}",
        f"{what}, had it acted" if found.shadow else what,
        [
            *warnings,
            Text(by_turns or estimated, "headline", [" ".join(told)] if told else []),
            Text(note, "note"),
        ],
        sections,
        {"table": _metrics(found)},
    )
    return write(target, page)


def _numbers(found: Governed) -> Section:
    columns: Cells = ["quantity", "value", Cell("how it is known", look="text")]
    known = [
        *_of_alternation(found),
        *_of_power(found),
        *_of_latency(found),
        *_of_law(found),
    ]
    rows: list[Cells] = [row for row in known if row[1]]
    note = as_data("table.csv", "As data, with every metric of the catalog")
    blocks: list[Block] = [grid("Numbers", columns, rows)]
    blocks += [Text(PRICE.stated, "note")] if phrases.saved_w(found) is not None else []
    blocks.append(Text(note, "note"))
    if found.forced:
        reasons = [f"{why}: {count(n)} window{'s' * (n != 1)}" for why, n in found.forced]
        blocks += [Heading("Why full speed was forced"), Items(reasons)]
    return Section("In numbers", blocks)


def _of_alternation(found: Governed) -> list[tuple[str, str, str]]:
    by_turns = found.summary.alternation if found.summary else None
    if by_turns is None or found.summary is None:
        return []
    saved, latency, pairs = by_turns.power_w_saved, by_turns.latency_change, by_turns.pairs
    requests = by_turns.requests_per_s_change
    meter = found.summary.power.meter or "the meter"
    by = "estimate, power model" if by_turns.power_is_estimate else f"measured, {meter}"
    interval = f"95 % interval over {count(pairs)} pairs with full speed"
    of = by_turns.power_w_full_speed
    share = f", {percent(saved.mean / of, 1)} of {number(of)} W" if saved and of else ""
    return [
        ("pairs by turns with full speed", count(pairs), "counted"),
        (
            "power saved, by turns",
            f"{saved.mean:.1f} ± {saved.half_width:.1f} W{share}" if saved else "",
            f"{by}; {interval}",
        ),
        (
            "mean latency above full speed, by turns",
            f"{100 * latency.mean:+.1f} ± {100 * latency.half_width:.1f} %" if latency else "",
            f"measured; {interval}",
        ),
        (
            "requests per second above full speed, by turns",
            f"{100 * requests.mean:+.1f} ± {100 * requests.half_width:.1f} %" if requests else "",
            f"measured; {interval}",
        ),
    ]


def _of_power(found: Governed) -> list[tuple[str, str, str]]:
    would = "that would be in force" if found.shadow else "in force"
    share, saved_w = found.get("saving_share_estimated"), phrases.saved_w(found)
    year, sound = "", found.sound or (saved_w or 0.0) < 0
    if saved_w is not None:
        saved = PRICE.year(saved_w)
        year = f"{number(saved.kwh)} kWh, {number(saved.eur)} EUR, {number(1000 * saved.co2_t)} kg"
        year = bracketed(year, sound)
    return [
        ("time covered by windows", duration(found.get("span_s") or 0.0), "measured"),
        (f"mean power of the setting {would}", _of(found, "power_w_mean_estimated", "W"), _BY),
        ("mean power at full speed", _of(found, "power_w_mean_full_speed_estimated", "W"), _BY),
        ("saving", "" if share is None else bracketed(percent(share, 1), sound), _BY),
        ("saving in a year, and its CO\N{SUBSCRIPT TWO}", year, _BY),
        (f"energy of the setting {would}", _of(found, "energy_j_estimated", "J"), _BY),
        ("energy at full speed", _of(found, "energy_j_full_speed_estimated", "J"), _BY),
        ("mean power by the meter", _of(found, "power_w_mean_measured", "W"), "measured"),
        ("energy by the meter", _of(found, "energy_j_measured", "J"), "measured"),
    ]


def _of_latency(found: Governed) -> list[tuple[str, str, str]]:
    kind = "estimate, latency model" if found.shadow else "measured"
    loss, bounded = found.get("loss_mean"), found.get("windows_bounded")
    broken = f"{count(found.get('violations'))} of {count(bounded)}" if bounded else ""
    against = f"{kind}; against the baseline learned at full speed"
    longer = "" if loss is None else percent(loss, 1)
    step_us = _step_us(found)
    measured = f"measured, in steps of {quantity(step_us, 'us')}" if step_us else "measured"
    bucket = f"{measured}; upper edge of its bucket"
    return [
        ("requests", count(found.get("requests")), "counted"),
        ("mean latency", _told(found, "latency_us_mean"), measured),
        ("99th percentile", _told(found, "latency_us_p99"), bucket),
        ("99.9th percentile", _told(found, "latency_us_p999"), bucket),
        ("99.99th percentile", _told(found, "latency_us_p9999"), bucket),
        ("latency above full speed, while saving", longer, against),
        *(
            [
                (
                    f"windows above {bound.bound}, while saving",
                    f"{count(bound.windows_over)} of {count(bound.windows)}",
                    kind,
                )
                for bound in phrases.named_bounds(found)
            ]
            or [("windows above the bound, while saving", broken, kind)]
        ),
    ]


def _of_law(found: Governed) -> list[tuple[str, str, str]]:
    kind = "estimate, latency model" if found.shadow else "counted"
    rows = [("changes of the setting", count(found.get("setting_changes")), kind)]
    for state in _STATES:
        share = found.get(f"state_share_{state}")
        rows.append((f"time {state}", "" if share is None else percent(share, 1), kind))
    for name in ("missing", "forced"):
        label = {"missing": "without a latency", "forced": "with full speed forced"}[name]
        rows.append((f"windows {label}", count(found.get(f"windows_{name}")), "counted"))
    for label, name in _COUNTS:
        amount = found.get(name)
        if amount:
            rows.append((label, count(amount), "counted"))
    return rows


_BY = "estimate, power model"


def _step_us(found: Governed) -> float | None:
    """In what steps a source tells latency that has no finer ones: logs have whole milliseconds."""
    told_us = found.summary.latency.latency_us_resolution if found.summary else None
    return told_us if told_us is not None and told_us > 1 else None


def _told(found: Governed, name: str) -> str:
    """A latency; one that the source cannot tell from none is not said to be none."""
    value_us, step_us = found.get(name), _step_us(found)
    if value_us is not None and step_us is not None and value_us <= 1:
        return f"< {quantity(step_us, 'us')}"
    return _of(found, name, "us")


def _of(found: Governed, name: str, unit: str) -> str:
    value = found.get(name)
    return "" if value is None else quantity(value, unit)


def _verdicts(found: Governed) -> Section:
    text, nothing = Cell("reason", look="text"), "nothing was found that speaks against it"
    rows: list[Cells] = [
        [Cell(verdict.verdict, look=verdict.verdict), verdict.reason or nothing]
        for verdict in found.recorded.verdicts
    ]
    blocks: list[Block] = [
        grid("Verdicts", ["verdict", text], rows),
        Text("WARN: can be used, with care. INVALID: kept and shown, not to be used.", "note"),
    ]
    return Section("Verdicts and events", [*blocks, *_events(found)])


def _events(found: Governed) -> list[Block]:
    if not found.events:
        return [Text("No events.", "note")]
    columns: Cells = ["time (UTC)", Cell("severity", look="text"), Cell("event", look="text")]
    rows: list[Cells] = [
        [_instant(event.utc_ns), Cell(event.severity, look=event.severity), event.message]
        for event in reversed(found.events)
    ]
    every = sum(found.severities.values())
    text = "The newest first"
    if every > len(rows):
        text = f"The newest {len(rows)} of {count(every)} events, the newest first"
    told = ", ".join(f"{count(n)} {severity}" for severity, n in sorted(found.severities.items()))
    text += f"; {told}. All of them are in raw/events.jsonl."
    return [Heading("Events"), grid("Events", columns, rows), Text(text, "note")]


def _made(found: Governed) -> Section:
    machine, summary, run = found.machine, found.summary, found.recorded.run
    settings = ", ".join(f"{key} = {setting(v)}" for key, v in sorted(run.settings.items()))
    file = f" {machine.config_file}" if machine.config_file else ""
    groups = []
    for group in machine.groups:
        total = "" if group.cores_total is None else f" ({group.cores_total})"
        groups.append(f"{group.name}: cores {group.cores}{total}, {group.cores_min} always active")
    options = f" {shlex.join(machine.options)}" if machine.options else ""
    command = code(f"{machine.program} {machine.mode}{options}{file}")
    entries = [
        ("Command", command + f", version {machine.version}"),
        ("Policy", f"{machine.policy}: {settings}" if settings else machine.policy),
        ("Groups of cores", lines(groups)),
    ]
    if summary:
        entries += [
            ("Latency source", summary.latency.source or "not known"),
            ("Power meter", summary.power.meter or "none"),
            ("Power model", summary.power.model or "none"),
        ]
    host = (machine.hostname or "unknown", machine.processor or "unknown processor")
    entries += [
        ("Host", ", ".join([*host, machine.kernel or "unknown kernel"])),
        ("Begun", machine.started_utc),
        ("Last window", f"{_instant(found.phase.end_utc_ns)} UTC"),
    ]
    config = Folded("The configuration as given", found.folder.config_text())
    return Section("How this was made", [Facts(entries), config])


def _metrics(found: Governed) -> Table:
    """Every metric in the catalog."""
    rows = sorted(found.recorded.metrics.items())
    return [["metric", "value", "unit"], *([name, *value] for name, value in rows)]


def _instant(utc_ns: int) -> str:
    return datetime.fromtimestamp(utc_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
