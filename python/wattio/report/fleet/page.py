"""The page of a fleet's report, and the files beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wattio.errors import ResultError
from wattio.kinds.fleet import summary
from wattio.kinds.fleet.folder import COLUMNS, FleetFolder
from wattio.kinds.fleet.schema import FleetStudy
from wattio.kinds.fleet.summary import Policy
from wattio.report import rendering
from wattio.report.drawing import Table
from wattio.report.fleet import figures
from wattio.report.phrases import number, percent
from wattio.simulator.policies import REFERENCE

_TOLD_MOST = 20
"""So many servers over the bound are named on the page; all are in the table."""


def make(path: Path, target: Path) -> Path:
    """Write the report of a fleet into a folder; return the page. Raises ResultError."""
    folder = FleetFolder(path)
    found = summary.policies(folder)
    study = folder.study()
    members = folder.inputs()["members"]
    drawn = figures.of_fleet(found, study, members)
    page = target / "index.html"
    try:
        target.mkdir(exist_ok=True)
        rendering.write_table(target / "policies.csv", _metrics(found))
        rendering.write_table(target / "servers.csv", _servers(found, study, members))
        for figure in drawn:
            rendering.write_figure(target, figure.name, figure)
        environment = rendering.environment()
        environment.filters["whole"] = whole
        template = environment.get_template("fleet/page.html.j2")
        view = _view(folder, found, study, members)
        text = template.render(view | {"figures": rendering.embedded(drawn)})
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{target}: cannot be written: {error.strerror}") from error
    return page


def whole(value: float | None) -> str:
    """A number of things, thousands apart; tenths where it is no whole number."""
    if value is None or value >= 1000:
        return number(value)
    return f"{value:g}"


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
    change = f"save {percent(saving, 1)}" if saving >= 0 else f"cost {percent(-saving, 1)} more"
    if over == 0:
        kept = f"and keep its bound ({study.study.bound}) on every server"
    elif over == 1:
        kept = f"and break its bound ({study.study.bound}) on one server"
    else:
        kept = f"and break its bound ({study.study.bound}) on {whole(over)} servers"
    interval = f"95 % interval {percent(low, 1)} to {percent(high, 1)}"
    watts, euro = _unit(policy, "saving_w", "W"), _unit(policy, "saving_eur_year", "EUR")
    tonnes = _unit(policy, "saving_co2_t_year", "t")
    return (
        f"{policy.run.condition} would {change} of the power of these {whole(study.servers)}"
        f" servers ({interval}): {watts}, {euro} and {tonnes} of CO\N{SUBSCRIPT TWO} a year,"
        f" {kept}."
    )


def _view(
    folder: FleetFolder, found: list[Policy], study: FleetStudy, members: list[dict[str, Any]]
) -> dict[str, Any]:
    """What the template shows."""
    inputs = folder.inputs()
    return {
        "study": study.study,
        "name": folder.name,
        "machine": folder.machine(),
        "headline": headline(best(found), study),
        "servers": study.servers,
        "days": study.study.duration / 86400,
        "policies": [_policy_row(policy) for policy in found],
        "over": [_over(policy, study, members) for policy in found if _compared(policy)],
        "top": [_top(policy, study, members) for policy in found if _compared(policy)],
        "placing": [
            _placing(policy) for policy in found if policy.get("estimated_placing_servers")
        ],
        "placing_entry": study.placing,
        "price": study.price,
        "groups": study.group,
        "scale": inputs["scale"],
        "assumptions": {
            server["name"]: server["assumptions"] for server in inputs["servers"].values()
        },
        "config": folder.study_text(),
    }


def _compared(policy: Policy) -> bool:
    return policy.run.policy != REFERENCE


def _unit(policy: Policy, name: str, unit: str) -> str:
    return f"{number(policy.get(name))}\N{NO-BREAK SPACE}{unit}"


def _policy_row(policy: Policy) -> dict[str, Any]:
    compared = _compared(policy)
    low, high = policy.get("saving_share_low"), policy.get("saving_share_high")
    skipped = (policy.get("windows_skipped") or 0.0) / max(policy.get("windows") or 1.0, 1.0)
    return {
        "label": policy.run.condition,
        "settings": policy.run.settings,
        "subject": compared,
        "power": f"{(policy.get('power_w_fleet') or 0.0) / 1000:.2f}",
        "power_interval": f"{(policy.get('power_w_fleet_low') or 0.0) / 1000:.2f} to"
        f" {(policy.get('power_w_fleet_high') or 0.0) / 1000:.2f}",
        "saving": percent(policy.get("saving_share"), 1) if compared else "",
        "interval": f"{percent(low, 1)} to {percent(high, 1)}" if compared else "",
        "kwh": number(policy.get("energy_kwh")),
        "kwh_year": number(policy.get("energy_kwh_year")),
        "eur_year": number(policy.get("cost_eur_year")),
        "co2_year": number(policy.get("co2_t_year")),
        "over": int(policy.get("servers_over_bound") or 0) if compared else None,
        "latency": policy.get("relative_latency_us_mean_p50"),
        "latency_worst": policy.get("relative_latency_us_mean_max"),
        "background": policy.get("relative_background_rate"),
        "skipped": percent(skipped, 0),
    }


def _server(at: int, members: list[dict[str, Any]]) -> dict[str, Any]:
    member = members[at]
    return {"number": at, "group": member["group"], "load": _load(member["source"])}


def _load(source: dict[str, Any]) -> str:
    if source["kind"] == "day":
        return f"{percent(source['pressure'], 1)} on average, busiest at {source['hour']:.0f} h"
    if source["kind"] == "profile":
        return f"profile, from its segment {source['begin'] + 1}"
    return f"trace {Path(source['path']).name}, from {percent(source['begin'], 0)} of it"


def _over(policy: Policy, study: FleetStudy, members: list[dict[str, Any]]) -> dict[str, Any]:
    over = summary.breakers(policy, study)
    rows = [_server(at, members) | {"ratio": ratio} for at, ratio in over[:_TOLD_MOST]]
    return {"label": policy.run.condition, "all": len(over), "rows": rows}


def _top(policy: Policy, study: FleetStudy, members: list[dict[str, Any]]) -> dict[str, Any]:
    rows = []
    ratios = summary.relative(policy.columns, policy.native, study)
    for at in summary.worthwhile(policy):
        native_w = float(policy.native["power_w_mean"][at])
        saved_w = float(policy.saved_w[at])
        ratio = float(ratios[at])
        rows.append(
            _server(at, members)
            | {"saved": number(saved_w), "native": number(native_w)}
            | {"share": percent(saved_w / native_w, 1), "kept": not ratio > 1}
            | {"ratio": None if np.isnan(ratio) else ratio}
        )
    return {"label": policy.run.condition, "rows": rows}


def _placing(policy: Policy) -> dict[str, Any]:
    return {
        "label": policy.run.condition,
        "servers": whole(policy.get("estimated_placing_servers")),
        "needed": whole(policy.get("estimated_placing_servers_needed")),
        "saving": _unit(policy, "estimated_placing_saving_w", "W"),
        "share": percent(policy.get("estimated_placing_saving_share"), 1),
        "moving": _unit(policy, "estimated_placing_moving_w", "W"),
    }


def _metrics(found: list[Policy]) -> Table:
    """Every metric of the fleet, policy by policy."""
    rows: Table = [["policy", "metric", "value", "unit"]]
    for policy in found:
        rows += [
            [policy.run.condition, name, *value] for name, value in sorted(policy.metrics.items())
        ]
    return rows


def _servers(found: list[Policy], study: FleetStudy, members: list[dict[str, Any]]) -> Table:
    """Every server under every policy."""
    rows: Table = [["server", "group", "policy", "saved_w", "bound_ratio", *COLUMNS]]
    for policy in found:
        ratios = summary.relative(policy.columns, policy.native, study)
        for at, member in enumerate(members):
            values = [float(policy.columns[name][at]) for name in COLUMNS]
            head = [at, member["group"], policy.run.condition, float(policy.saved_w[at])]
            cells = [float(ratios[at]), *values]
            rows.append([*head, *("" if np.isnan(cell) else cell for cell in cells)])
    return rows
