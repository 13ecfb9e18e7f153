"""The page of a governor's report, and the files beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wattio.errors import ResultError
from wattio.report import rendering
from wattio.report.drawing import Table
from wattio.report.governor import figures, phrases
from wattio.report.governor.gather import Governed, gather
from wattio.report.governor.phrases import count, duration
from wattio.report.phrases import number, percent

_STATES = ("unstable", "stable", "idle")

_COUNTS = (
    ("values written to knobs", "knob_writes"),
    ("values that could not be read or written", "knob_failures"),
    ("places left to somebody else", "foreign_changes"),
    ("samples that could not be had", "source_errors"),
    ("returns from saving to full speed", "flaps"),
    ("openings of the circuit breaker", "breaker_trips"),
)


def make(path: Path, target: Path) -> Path:
    """Write the report of a governor into a folder; return the page. Raises ResultError."""
    found = gather(path)
    drawn = figures.of_result(found)
    page = target / "index.html"
    try:
        target.mkdir(exist_ok=True)
        rendering.write_table(target / "table.csv", _metrics(found))
        for figure in drawn:
            rendering.write_figure(target, figure.name, figure)
        environment = rendering.environment()
        environment.filters["count"] = count
        template = environment.get_template("governor/page.html.j2")
        text = template.render(_view(found) | {"figures": rendering.embedded(drawn)})
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{target}: cannot be written: {error.strerror}") from error
    return page


def _view(found: Governed) -> dict[str, Any]:
    """What the template shows."""
    events = [(_instant(e.utc_ns), e.severity, e.message) for e in reversed(found.events)]
    return {
        "name": found.folder.name,
        "machine": found.machine,
        "shadow": found.shadow,
        "summary": found.summary,
        "headline": phrases.headline(found),
        "details": phrases.details(found),
        "verdicts": found.recorded.verdicts,
        "invalid": [v.reason for v in found.recorded.verdicts if v.verdict == "INVALID"],
        "numbers": _numbers(found),
        "forced": found.forced,
        "events": events,
        "severities": found.severities,
        "events_all": sum(found.severities.values()),
        "ended": _instant(found.phase.end_utc_ns),
        "settings": found.recorded.run.settings,
        "config": found.folder.config_text(),
    }


def _numbers(found: Governed) -> list[tuple[str, str, str]]:
    """What, how much, and how it is known."""
    return [row for row in (*_of_power(found), *_of_latency(found), *_of_law(found)) if row[1]]


def _of_power(found: Governed) -> list[tuple[str, str, str]]:
    would = "that would be in force" if found.shadow else "in force"
    share = found.get("saving_share_estimated")
    return [
        ("time covered by windows", duration(found.get("span_s") or 0.0), "measured"),
        (f"mean power of the setting {would}", _unit(found, "power_w_mean_estimated", "W"), _BY),
        ("mean power at full speed", _unit(found, "power_w_mean_full_speed_estimated", "W"), _BY),
        ("saving", "" if share is None else percent(share, 1), _BY),
        (f"energy of the setting {would}", _unit(found, "energy_j_estimated", "J"), _BY),
        ("energy at full speed", _unit(found, "energy_j_full_speed_estimated", "J"), _BY),
        ("mean power by the meter", _unit(found, "power_w_mean_measured", "W"), "measured"),
        ("energy by the meter", _unit(found, "energy_j_measured", "J"), "measured"),
    ]


def _of_latency(found: Governed) -> list[tuple[str, str, str]]:
    kind = "estimate, latency model" if found.shadow else "measured"
    loss, bounded = found.get("loss_mean"), found.get("windows_bounded")
    broken = f"{count(found.get('violations'))} of {count(bounded)}" if bounded else ""
    against = f"{kind}; against the baseline learned at full speed"
    longer = "" if loss is None else percent(loss, 1)
    bucket = "measured; upper edge of its bucket"
    return [
        ("requests", count(found.get("requests")), "counted"),
        ("mean latency", _unit(found, "latency_us_mean", "µs"), "measured"),
        ("99th percentile", _unit(found, "latency_us_p99", "µs"), bucket),
        ("99.9th percentile", _unit(found, "latency_us_p999", "µs"), bucket),
        ("latency above full speed, while saving", longer, against),
        ("windows above the bound, while saving", broken, kind),
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


def _unit(found: Governed, name: str, unit: str) -> str:
    value = found.get(name)
    return "" if value is None else f"{number(value)}\N{NO-BREAK SPACE}{unit}"


def _metrics(found: Governed) -> Table:
    """Every metric in the catalog."""
    rows = sorted(found.recorded.metrics.items())
    return [["metric", "value", "unit"], *([name, *value] for name, value in rows)]


def _instant(utc_ns: int) -> str:
    return datetime.fromtimestamp(utc_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
