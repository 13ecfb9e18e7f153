"""The page of a simulation study: what each policy saves on each load, and what that costs."""

from __future__ import annotations

from pathlib import Path

from wattio.analysis.price import Price
from wattio.analysis.soundness import BACKGROUND_FLOOR
from wattio.kinds.simulation import overall, promises
from wattio.kinds.simulation.overall import Overall, sound
from wattio.report import output
from wattio.report.page import (
    Block,
    Cell,
    Cells,
    Page,
    Section,
    Text,
    as_data,
    gallery,
    grid,
    write,
)
from wattio.report.phrases import DASH, bracketed, latency, number, percent, times
from wattio.report.plots import Table
from wattio.report.simulation import figures, made, phrases
from wattio.report.simulation.gather import Curve, LoadPart, Result, gather
from wattio.results.summary import Row
from wattio.simulator.policies import BOUND_BY, REFERENCE

PRICE = Price()
"""By what a year of saved power is told in money and carbon dioxide."""

LATENCIES = (
    ("mean latency", "latency_us_mean"),
    ("p99", "latency_us_p99"),
    ("p99.9", "latency_us_p999"),
    ("p99.99", "latency_us_p9999"),
)
"""Columns of latency, by metric; each has its ratio to native below."""

COLUMNS = (
    *("power_w_mean", "saving_share", "iops_per_watt", "relative_iops_per_watt"),
    *(prefix + name for _, name in LATENCIES for prefix in ("", "relative_")),
    *("relative_background_rate", "captured_share", "bound_violation_share", "bound_limit_ratio"),
)
"""Metrics in the CSV of a load's table."""

DRAWN_MAX = 12
"""Of a study with more loads the page shows tables only: figures of each would be megabytes."""


def make(path: Path, target: Path) -> Path:
    """Write `report/` of a result folder; return the page. Raises ResultError."""
    result = gather(path)
    study = result.resolved["study"]
    every = [row for part in result.loads for row in part.rows]
    over = overall.of(every)
    lead: list[Block] = []
    if not result.complete:
        text = "This study is not complete: it was stopped before all of its runs had ended."
        lead.append(Text(f"{text} The numbers below are those of the runs that did.", "warning"))
    for part in result.loads if not over else []:
        others = phrases.others(part)
        lead.append(Text(phrases.headline(part), "headline", [others] if others else []))
    text = "All power and latency in this report is simulated: an estimate for the server that is"
    lead.append(Text(f"{text} described below, not a measurement of one.", "note"))
    sections = [_winners(result)] if any(part.subject for part in result.loads) else []
    sections += [_overall(title, found) for title, found in overall.by_bound(over).items()]
    sections += [_load(part, result) for part in result.loads]
    page = Page(
        study["name"],
        f"{study['name']} · {result.folder.name}",
        study["description"] or "What each policy would save, and what it would cost in latency",
        lead,
        [*sections, made.section(result)],
        {f"{output.slug(part.name)}-table": _table(part) for part in result.loads},
    )
    return write(target, page)


def _winners(result: Result) -> Section:
    """Which policy saves most, and how sure that is."""
    said = [Text(text) for text in phrases.winners(result)]
    return Section("What won", [*said, *gallery([figures.winners(result)])])


def _overall(title: str, found: list[Overall]) -> Section:
    on_mean = found[0].bound == promises.MEAN
    has_oracle = any(policy.captured_median is not None for policy in found)
    columns: Cells = [
        "policy",
        ("bound kept", "loads"),
        ("background done", f"loads with {percent(BACKGROUND_FLOOR)} of native's"),
        ("worst mean latency", "to native") if on_mean else ("worst latency", "to its limit"),
        ("saving", "median of loads"),
        ("of oracle's saving", "median of loads"),
        ("worst quarter", "at most so much"),
    ]
    rows: list[Cells] = [
        [
            policy.label,
            Cell(
                f"{policy.kept} of {policy.judged}",
                look="broken" if policy.kept < policy.judged else "",
            ),
            f"{policy.background_done} of {policy.loads}",
            times(policy.latency_worst if on_mean else policy.limit_worst),
            percent(policy.saving_median, 1),
            percent(policy.captured_median, 0),
            percent(policy.captured_worst_quarter, 0),
        ]
        for policy in found
    ]
    text = "A load whose bound was broken, or whose background work was left undone, counts as"
    text += " nothing saved."
    if has_oracle:
        text += " The oracle knows each load beforehand; its saving is the best that a search"
        text += " found."
    else:
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    caption = f"Each policy {title[0].lower()}{title[1:]}"
    return Section(title, [grid(caption, columns, rows), Text(text, "note")])


def _load(part: LoadPart, result: Result) -> Section:
    slug = output.slug(part.name)
    shown = figures.of_load(part) if len(result.loads) <= DRAWN_MAX else []
    blocks: list[Block] = [_policies(part), Text(_note(part), "note")]
    blocks.append(Text(as_data(f"{slug}-table.csv"), "note"))
    return Section(part.name, [*blocks, *gallery(shown, f"{slug}-")], f"on {part.server}")


def _policies(part: LoadPart) -> Block:
    columns: list[Cell | str | tuple[str, str]] = [
        "policy",
        ("power", "W, simulated"),
        ("saving", "of native"),
        ("saved in a year", "EUR, kg CO\N{SUBSCRIPT TWO}"),
        ("IOPS/W", "to native"),
        *((name, "to native") for name, _ in LATENCIES),
        ("background", "to native"),
        *([("of oracle's", "saving")] if part.has_oracle else []),
        (_bound_heading(part), "windows over it"),
    ]
    rows = [_policy(curve, part) for curve in part.curves]
    subjects = [at for at, curve in enumerate(part.curves) if curve is part.subject]
    return grid(f"Policies against native on {part.name}", columns, rows, subjects)


def _policy(curve: Curve, part: LoadPart) -> Cells:
    row = curve.row
    reference = row.run.policy == REFERENCE
    runs = f"mean of {row.used}" if row.used > 1 else ""
    warned = f"{row.warned} WARN: {', '.join(curve.doubts)}" if row.warned else ""
    cells: list[Cell | str | tuple[str, str]] = [
        (row.run.condition, ", ".join(filter(None, (runs, warned)))),
        number(row.mean("power_w_mean")),
        *([DASH, DASH] if reference else _saving(row, part)),
        (number(row.mean("iops_per_watt")), _ratio(row, "iops_per_watt", reference)),
    ]
    cells += [(latency(row.mean(name)), _ratio(row, name, reference)) for _, name in LATENCIES]
    cells.append(_ratio(row, "background_rate", reference) or DASH)
    if part.has_oracle:
        cells.append(DASH if reference else _captured(row))
    cells.append(DASH if reference or row.bound_kept is None else _bound(row))
    return cells


def _saving(row: Row, part: LoadPart) -> list[tuple[str, str]]:
    """The share saved with its interval; what that is in a year."""
    share = row.mean("saving_share")
    estimate = row.get("saving_share")
    interval = estimate.interval if estimate else None
    ends = f"{percent(interval.low, 1)} to {percent(interval.high, 1)}" if interval else ""
    native_w = part.native.row.mean("power_w_mean") if part.native else None
    power_w = row.mean("power_w_mean")
    year = (DASH, "")
    if native_w is not None and power_w is not None:
        saved = PRICE.year(native_w - power_w)
        small = f"{number(saved.eur)} EUR, {number(1000 * saved.co2_t)} kg"
        year = bracketed(f"{number(saved.kwh)} kWh", sound(row)), small
    return [(bracketed(percent(share, 1), sound(row)), ends), year]


def _ratio(row: Row, name: str, reference: bool) -> str:
    if reference:
        return times(1.0)
    value = row.mean(f"relative_{name}")
    return "" if value is None else times(value)


def _captured(row: Row) -> str:
    return bracketed(percent(row.mean("captured_share"), 0), sound(row))


def _bound(row: Row) -> Cell:
    over = row.mean("bound_violation_share")
    small = "" if over is None else f"{percent(over, 1)} over"
    word = "kept" if row.bound_kept else "broken"
    held_to = promises.told(row.run) if promises.are_given(row.run) else percent(row.run.plf)
    return Cell(f"{word}, {held_to}", small, "" if row.bound_kept else "broken")


def _bound_heading(part: LoadPart) -> str:
    kinds = dict.fromkeys(promises.kind(curve.row.run) for curve in part.curves)
    return f"bound on {' or '.join(kinds)}"


def _note(part: LoadPart) -> str:
    text = "Native is full speed: all cores at the highest frequency. "
    if part.has_oracle:
        text += "The oracle is the least power that was found for the same work under the same"
        text += f" bound, with the load known in advance, which no policy can. {_uncompared(part)}"
    text += "Background is the rate of the server's own work (garbage collection, scrubbing,"
    text += f" flushing): below {percent(BACKGROUND_FLOOR)} of native's it is left undone. A saving"
    text += " in brackets is none: it was had by breaking the bound, or by leaving such work"
    text += f" undone. {PRICE.stated}"
    if any(curve.row.used > 1 for curve in part.curves):
        text += " Small figures under a saving are its 95 % interval (Student's t) over seeds."
    return text


def _uncompared(part: LoadPart) -> str:
    """Who is held to another bound than the oracle, so that no share of its saving is told."""
    runs = [curve.row.run for curve in part.curves if curve.row.run.policy != REFERENCE]
    oracles = {promises.told(run): run.condition for run in runs if run.policy == BOUND_BY}
    others = [run for run in runs if promises.told(run) not in oracles]
    if not others:
        return ""
    held = "; ".join(f"{label} is held to {bound}" for bound, label in oracles.items())
    told = ", ".join(f"{run.condition} ({promises.told(run)})" for run in others)
    return f"Here {held}: no share of its saving is told of who is held to another bound, {told}. "


def _table(part: LoadPart) -> Table:
    table: Table = [["policy", "iterations", *COLUMNS, "bound_plf", "bounds", "bound_kept"]]
    for row in part.rows:
        values = ["" if row.mean(name) is None else row.mean(name) for name in COLUMNS]
        kept = "" if row.bound_kept is None else str(row.bound_kept).lower()
        plf = "" if promises.are_given(row.run) else row.run.plf
        line = [row.run.condition, row.used, *values, plf, promises.told(row.run), kept]
        if line not in table:
            table.append(line)
    return table
