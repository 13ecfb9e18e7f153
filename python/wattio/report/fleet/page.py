"""The page of a fleet's report, and the files beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from wattio.kinds.fleet import summary
from wattio.kinds.fleet.folder import COLUMNS, FleetFolder
from wattio.kinds.fleet.schema import FleetStudy, GroupEntry
from wattio.kinds.fleet.summary import Policy
from wattio.report.fleet import figures
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
from wattio.report.phrases import bracketed, number, percent, setting, times, undone
from wattio.report.plots import Table
from wattio.simulator.policies import REFERENCE

_TOLD_MOST = 20
"""So many servers over the bound are named on the page; all are in the table."""


def make(path: Path, target: Path) -> Path:
    """Write the report of a fleet into a folder; return the page. Raises ResultError."""
    folder = FleetFolder(path)
    found = summary.policies(folder)
    study = folder.study()
    members = folder.inputs()["members"]
    head = study.study
    compared = [policy for policy in found if policy.run.policy != REFERENCE]
    sections = [
        Section("What won", [Text(_winner(found)), *gallery([figures.winners(found)])]),
        _policies(found, study),
        _servers_section(compared, study, members),
        _over_section(compared, study, members),
        *_placing_section(compared, study),
        _made(folder, found, study),
    ]
    note = (
        "Every number here is calculated: each server is run as a fluid, by rates and queueing"
        " formulas, under the very law that would govern it, for"
        f" {span(head.duration)} from a {head.first_day.capitalize()} on. Intervals (95 %)"
        " are Student's t over the servers, of a saving the paired t of the logarithm of the ratio"
        " to native: how much another fleet drawn in the same way would differ. They"
        " hold nothing of what the descriptions of the servers or the loads may have wrong."
    )
    small = [head.description] if head.description else []
    page = Page(
        f"{head.name} · fleet",
        f"fleet · {head.name} · {folder.name}",
        f"What a fleet of {whole(study.servers)} servers would save",
        [Text(headline(best(found), study), "headline", small), Text(note, "note")],
        sections,
        {"policies": _metrics(found), "servers": _servers(found, members)},
    )
    return write(target, page)


def whole(value: float | None) -> str:
    """A number of things, thousands apart; tenths where it is no whole number."""
    if value is None or value >= 1000:
        return number(value)
    return f"{value:g}"


def span(value_s: float) -> str:
    """A time in days where it is whole ones, else in hours."""
    value, unit = (value_s / 86400, "day") if value_s % 86400 == 0 else (value_s / 3600, "hour")
    return f"{number(value) if value % 1 else whole(value)} {unit}{'s' * (value != 1)}"


def best(found: list[Policy]) -> Policy | None:
    """The policy that saves most among those that break the bound on fewest servers."""
    others = [policy for policy in found if policy.run.policy != REFERENCE]
    return min(
        others,
        key=lambda policy: (
            policy.get("servers_over_bound") or 0.0,
            -(policy.get("saving_share") or 0.0),
        ),
        default=None,
    )


def headline(policy: Policy | None, study: FleetStudy) -> str:
    """What a reader should take away, in a sentence or two."""
    if policy is None:
        return "No policy was compared with native."
    saving = policy.get("saving_share") or 0.0
    low, high = policy.get("saving_share_low"), policy.get("saving_share_high")
    over = int(policy.get("servers_over_bound") or 0)
    share = bracketed(percent(abs(saving), 1), policy.sound)
    change = f"save {share}" if saving >= 0 else f"cost {share} more"
    one = len(study.bounds) == 1
    bound = f"its bound ({study.bounds_told})" if one else "the bound of its group"
    if over == 0:
        kept = f"and keep {bound} on every server"
        if _unknown(policy):
            kept += " whose latency is known"
    elif over == 1:
        kept = f"and break {bound} on one server"
    else:
        kept = f"and break {bound} on {whole(over)} servers"
    interval = f"95 % interval {percent(low, 1)} to {percent(high, 1)}"
    watts, euro = _unit(policy, "saving_w", "W"), _unit(policy, "saving_eur_year", "EUR")
    tonnes = _unit(policy, "saving_co2_t_year", "t")
    amounts = f"{watts}, {euro} and {tonnes} of CO\N{SUBSCRIPT TWO} a year"
    return (
        f"{policy.run.condition} would {change} of the power of these {whole(study.servers)}"
        f" servers ({interval}): {bracketed(amounts, policy.sound)},"
        f" {kept}{undone(policy.get('relative_background_rate'))}."
    )


def _unknown(policy: Policy) -> int:
    """The servers of which nobody can say whether they keep the bound."""
    return int(policy.get("servers_bound_unknown") or 0)


def _unit(policy: Policy, name: str, unit: str) -> str:
    return f"{number(policy.get(name))}\N{NO-BREAK SPACE}{unit}"


def _winner(found: list[Policy]) -> str:
    contest = figures.contest(found)
    return contest.sentence() if len(found) > 1 else "No policy was compared with native."


def _policies(found: list[Policy], study: FleetStudy) -> Section:
    columns: Cells = [
        "policy",
        ("power", "kW"),
        ("saving", "95 % interval"),
        ("energy", "kWh, kWh a year"),
        ("EUR", "a year"),
        ("t CO\N{SUBSCRIPT TWO}", "a year"),
        ("over the bound", "servers"),
        ("latency", "median, worst"),
        ("background", "to native"),
    ]
    rows = [_policy(policy) for policy in found]
    subjects = [at for at, policy in enumerate(found) if policy.run.policy != REFERENCE]
    data = Markup("{} {}, {}").format(
        study.price.factors.stated,
        as_data("policies.csv"),
        as_data("servers.csv", "and every server"),
    )
    shown = grid("Policies", columns, rows, subjects)
    return Section("Under each policy", [shown, Text(data, "note")])


def _policy(policy: Policy) -> Cells:
    compared = policy.run.policy != REFERENCE
    power = f"{(policy.get('power_w_fleet') or 0.0) / 1000:.2f}"
    low, high = ((policy.get(f"power_w_fleet_{end}") or 0.0) / 1000 for end in ("low", "high"))
    ends = (percent(policy.get(f"saving_share_{end}"), 1) for end in ("low", "high"))
    over, unknown = int(policy.get("servers_over_bound") or 0), _unknown(policy)
    saving = percent(policy.get("saving_share"), 1)
    return [
        policy.run.condition,
        (power, f"{low:.2f} to {high:.2f}"),
        (bracketed(saving, policy.sound), " to ".join(ends)) if compared else "",
        (number(policy.get("energy_kwh")), number(policy.get("energy_kwh_year"))),
        number(policy.get("cost_eur_year")),
        number(policy.get("co2_t_year")),
        Cell(str(over), f"{unknown} not known" if unknown else "", "broken" if over else "")
        if compared
        else "",
        (
            times(policy.get("relative_latency_us_mean_p50")),
            times(policy.get("relative_latency_us_mean_max")),
        ),
        times(policy.get("relative_background_rate")),
    ]


_TEXT = "text"


def _server(at: int, members: list[dict[str, Any]]) -> list[Cell | str]:
    member = members[at]
    return [str(at), member["group"], _load(member["source"])]


def _load(source: dict[str, Any]) -> str:
    if source["kind"] == "day":
        return f"{percent(source['pressure'], 1)} on average, busiest at {source['hour']:.0f} h"
    if source["kind"] == "profile":
        return f"profile, from its segment {source['begin'] + 1}"
    return f"trace {Path(source['path']).name}, from {percent(source['begin'], 0)} of it"


_PLACE = ("server", Cell("group", look=_TEXT), Cell("load", look=_TEXT))


def _servers_section(
    found: list[Policy], study: FleetStudy, members: list[dict[str, Any]]
) -> Section:
    blocks: list[Block] = gallery(figures.of_fleet(found, study, members))
    for policy in found:
        rows = []
        for at in summary.worthwhile(policy):
            native_w = float(policy.native["power_w_mean"][at])
            ratio = float(policy.bound_ratio[at])
            saved_w = float(policy.saved_w[at])
            cells = [number(native_w), number(saved_w), percent(saved_w / native_w, 1)]
            over = Cell(_times(ratio), look="broken" if ratio > 1 else "")
            rows.append([*_server(at, members), *cells, over])
        columns: Cells = [
            *_PLACE,
            ("native", "W"),
            ("saved", "W"),
            "saved",
            "latency over its limit",
        ]
        label = policy.run.condition
        blocks.append(Heading(f"The most worthwhile servers for {label}"))
        blocks.append(grid(f"Most worthwhile servers for {label}", columns, rows))
    return Section("Server by server", blocks)


def _over_section(found: list[Policy], study: FleetStudy, members: list[dict[str, Any]]) -> Section:
    if len(study.bounds) == 1:
        text = f"The bound is “{study.bounds_told}”"
    else:
        text = f"The bounds are {study.bounds_told}"
    text += ", over the whole run, against the same server under native."
    blocks: list[Block] = [Text(text, "note")]
    for policy in found:
        label, over = policy.run.condition, summary.breakers(policy)
        blocks.append(Heading(f"{label}: {whole(len(over))} of {whole(study.servers)} servers"))
        rows = [
            [*_server(at, members), Cell(_times(ratio), look="broken")]
            for at, ratio in over[:_TOLD_MOST]
        ]
        if _unknown(policy):
            text = f"Of {whole(_unknown(policy))} it is not known, as their latency is not."
            blocks.append(Text(text, "note"))
        if not rows:
            blocks.append(Text("None."))
            continue
        columns: Cells = [*_PLACE, "latency over its limit"]
        blocks.append(grid(f"Servers over the bound under {label}", columns, rows))
        if len(over) > len(rows):
            blocks.append(Text(f"The farthest {len(rows)}; all are in servers.csv.", "note"))
    return Section("Who breaks the bound", blocks)


def _times(ratio: float) -> str:
    return times(None if np.isnan(ratio) else ratio)


def _placing_section(found: list[Policy], study: FleetStudy) -> list[Section]:
    entry = study.placing
    rows: list[Cells] = [
        [
            policy.run.condition,
            whole(policy.get("estimated_placing_servers")),
            whole(policy.get("estimated_placing_servers_needed")),
            _unit(policy, "estimated_placing_saving_w", "W"),
            percent(policy.get("estimated_placing_saving_share"), 1),
            _unit(policy, "estimated_placing_moving_w", "W"),
        ]
        for policy in found
        if policy.get("estimated_placing_servers")
    ]
    if entry is None or not rows:
        return []
    columns: Cells = ["beside", "servers", "needed", "would save more", "of native's power"]
    columns = [*columns, ("spent on moving", "on average")]
    text = (
        "Servers of one description are filled to at most"
        f" {percent(entry.pressure_max, 0)} of their saturated rate when all are at their busiest"
        f" hour at once; the others are off and draw {number(entry.off_power)} W. Each of these has"
        f" {number(entry.data / 2**40)} TiB to move, every {whole(entry.stays / 86400)} days, at"
        f" {number(entry.moving_power)} W. Power is taken for a line over the load, fitted to this"
        " result. Memory, capacity, locality and what breaks together are not looked at: it is an"
        " upper limit to reason from, not a plan."
    )
    blocks: list[Block] = [grid("Placing", columns, rows), Text(text, "note")]
    return [Section("Load on fewer servers: an estimate", blocks)]


def _made(folder: FleetFolder, found: list[Policy], study: FleetStudy) -> Section:
    inputs, machine = folder.inputs(), folder.machine()
    scale = f" --scale {inputs['scale']}" if inputs["scale"] else ""
    command = code(f"wattio run {machine['study_file']}{scale}")
    policies = []
    for policy in found:
        skipped = (policy.get("windows_skipped") or 0.0) / max(policy.get("windows") or 1.0, 1.0)
        settings = ", ".join(f"{k} = {setting(v)}" for k, v in sorted(policy.run.settings.items()))
        text = f"{policy.run.condition}: {settings}" if settings else policy.run.condition
        again = f"({percent(skipped, 0)} of its windows repeat others and were not stepped)"
        policies.append(f"{text} {again}")
    processor = machine["processor"] or "unknown processor"
    entries = [
        ("Command", command + f", version {machine['wattio']}"),
        ("Groups", lines([_group(group, study) for group in study.group])),
        ("Policies", lines(policies)),
        ("Seed", str(study.study.seed)),
        ("Machine", f"{processor}, {machine['cores']} cores, {machine['kernel']}"),
        ("Begun", machine["started_utc"]),
    ]
    blocks: list[Block] = [Facts(entries)]
    for server in inputs["servers"].values():
        text = f"What the description of {server['name']} assumes:"
        blocks += [Text(text), Items(server["assumptions"])] if server["assumptions"] else []
    return Section(
        "How this was made", [*blocks, Folded("The study as given", folder.study_text())]
    )


def _group(group: GroupEntry, study: FleetStudy) -> str:
    told = f"{group.name}: {whole(group.count)} of {group.server}"
    return told if len(study.bounds) == 1 else f"{told}, {study.bound_of(group.name)}"


def _metrics(found: list[Policy]) -> Table:
    """Every metric of the fleet, policy by policy."""
    rows: Table = [["policy", "metric", "value", "unit"]]
    for policy in found:
        rows += [
            [policy.run.condition, name, *value] for name, value in sorted(policy.metrics.items())
        ]
    return rows


def _servers(found: list[Policy], members: list[dict[str, Any]]) -> Table:
    """Every server under every policy."""
    rows: Table = [["server", "group", "policy", "saved_w", "bound_ratio", *COLUMNS]]
    for policy in found:
        for at, member in enumerate(members):
            values = [float(policy.columns[name][at]) for name in COLUMNS]
            head = [at, member["group"], policy.run.condition, float(policy.saved_w[at])]
            cells = [float(policy.bound_ratio[at]), *values]
            rows.append([*head, *("" if np.isnan(cell) else cell for cell in cells)])
    return rows
