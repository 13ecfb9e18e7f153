"""The figures of a fleet's report."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from wattio.files.plain import plain
from wattio.kinds.fleet.schema import FleetStudy
from wattio.kinds.fleet.summary import Policy
from wattio.report import plots, rankings
from wattio.report.plots import Drawn, Table
from wattio.simulator.policies import REFERENCE

_BINS = 30

_SHOWN = 500
"""So many servers of a curve that can be looked into, evenly by rank."""

Values = NDArray[np.float64]


def of_fleet(found: list[Policy], study: FleetStudy, members: list[dict[str, Any]]) -> list[Drawn]:
    """Every figure of the policies but native that there is data for."""
    if not found:
        return []
    return [savings(found), saving_by_load(found, members), bound(found, study)]


def _of_limit(study: FleetStudy) -> str:
    own = f" ({study.bounds_told})" if len(study.bounds) == 1 else ""
    return f"latency over its limit{own}"


def contest(found: list[Policy]) -> rankings.Contest:
    """The fleet's power under each policy, native first; drawn over servers, each with its twin."""
    order = sorted(found, key=lambda policy: policy.run.policy != REFERENCE)
    conditions = []
    for policy in order:
        values = tuple(policy.columns["power_w_mean"].tolist())
        conditions.append(rankings.Condition(policy.run.condition, values, policy.sound))
    return rankings.Contest("the fleet", "power", tuple(conditions), paired=True, of="servers")


def winners(found: list[Policy]) -> Drawn | None:
    """Every policy against native."""
    return rankings.drawn([contest(found)])


def savings(found: list[Policy]) -> Drawn:
    """Histogram of the share that each server saves."""
    shares = [policy.saved_w / policy.native["power_w_mean"] for policy in found]
    low = min(float(share.min()) for share in shares)
    high = max(float(share.max()) for share in shares)
    edges = np.linspace(min(low, 0.0), max(high, 0.01), _BINS + 1)
    table: Table = [["saving_from", "saving_to", *(policy.run.condition for policy in found)]]
    counts = [np.histogram(share, edges)[0] for share in shares]

    def draw(width: float) -> Figure:
        drawn, (axis,) = plots.figure(width, 3.2)
        for count, stroke in zip(counts, _strokes(found), strict=True):
            axis.stairs(count, 100 * edges, **_line(stroke))
        axis.set_xlabel("power saved against native (%)")
        axis.set_ylabel("servers")
        axis.set_ylim(bottom=0)
        plots.legend(drawn, _handles(found), width)
        return drawn

    for at in range(_BINS):
        table.append([edges[at], edges[at + 1], *(int(count[at]) for count in counts)])
    image, narrow = plots.images(draw)
    return Drawn(
        "savings",
        "What each server saves",
        "Servers by the share of their power that a policy saves.",
        "Histogram of the share of power saved, for each policy.",
        image,
        table,
        narrow=narrow,
    )


def saving_by_load(found: list[Policy], members: list[dict[str, Any]]) -> Drawn:
    """Watts saved against the rate of a server, each description apart."""
    kinds = list(dict.fromkeys(member["server"] for member in members))
    chosen = {
        kind: [at for at, member in enumerate(members) if member["server"] == kind]
        for kind in kinds
    }
    table: Table = [["server", "description", "policy", "iops_mean", "saved_w"]]
    for kind, own in chosen.items():
        for policy in found:
            rows = zip(own, _iops(policy)[own].tolist(), policy.saved_w[own].tolist(), strict=True)
            table += [[at, kind, policy.run.condition, of, saved] for at, of, saved in rows]

    def draw(width: float) -> Figure:
        drawn, axes = plots.figure(width, 2.2 + 1.4 * len(kinds), panels=len(kinds))
        for axis, (kind, own) in zip(axes, chosen.items(), strict=True):
            dense = max(0.15, min(0.7, 100 / len(own)))
            look: dict[str, Any] = {"linestyle": "", "markersize": 3.2, "alpha": dense}
            for policy, stroke in zip(found, _strokes(found), strict=True):
                look |= {"marker": stroke.marker, "color": stroke.colour}
                axis.plot(_iops(policy)[own], policy.saved_w[own], **look)
            axis.set_ylabel(f"saved (W)\n{kind.rsplit('/', 1)[-1]}")
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(lambda value, _: plain(value))  # 10,000, not 10 to the 4
        axes[-1].set_xlabel("mean rate of the server (I/Os a second)")
        plots.legend(drawn, _handles(found), width)
        return drawn

    image, narrow = plots.images(draw)
    return Drawn(
        "saving-by-load",
        "Where the savings are",
        "Each point is a server: what it saves against how busy it is.",
        "Scatter of watts saved against the rate of each server.",
        image,
        table,
        narrow=narrow,
    )


def bound(found: list[Policy], study: FleetStudy) -> Drawn:
    """How near each server comes to the bound: shares of servers by the ratio to their limit."""
    table: Table = [["policy", "share_of_servers", "ratio_to_limit"]]
    curves: list[tuple[Values, Values]] = []
    for policy in found:
        ratios = np.sort(policy.bound_ratio[np.isfinite(policy.bound_ratio)])
        shares = np.arange(1, len(ratios) + 1) / max(len(ratios), 1)
        curves.append((ratios, shares))
        rows = zip(shares.tolist(), ratios.tolist(), strict=True)
        table += [[policy.run.condition, share, ratio] for share, ratio in rows]

    def draw(width: float) -> Figure:
        drawn, (axis,) = plots.figure(width, 3.2)
        for (ratios, shares), stroke in zip(curves, _strokes(found), strict=True):
            axis.plot(ratios, 100 * shares, **_line(stroke))
        axis.axvline(1.0, color="#a40e26", linewidth=1.2)
        axis.annotate(
            "limit",
            (1.0, 0.04),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color="#a40e26",
            fontsize=8.5,
        )
        axis.set_ylim(0, 101)
        axis.set_xlabel(_of_limit(study))
        axis.set_ylabel("servers at or below (%)")
        plots.legend(drawn, _handles(found), width)
        return drawn

    image, narrow = plots.images(draw)
    return Drawn(
        "bound",
        "Who keeps the bound",
        "Servers left of the line keep it over the whole run; single windows may be over it.",
        "Distribution over the servers of latency over its limit, for each policy.",
        image,
        table,
        _bound_panels(found, curves, study),
        narrow=narrow,
    )


def _bound_panels(
    found: list[Policy], curves: list[tuple[Values, Values]], study: FleetStudy
) -> tuple[plots.Panel, ...]:
    """The same curves to be looked into, of no more servers than can be told apart."""
    lines: list[plots.Line] = []
    for policy, stroke, (ratios, shares) in zip(found, _strokes(found), curves, strict=True):
        shown = np.unique(np.linspace(0, len(ratios) - 1, _SHOWN).astype(int))
        if len(ratios):
            lines.append((policy.run.condition, stroke, ratios[shown], 100 * shares[shown]))
    if not lines:
        return ()
    most = max(float(line[2][-1]) for line in lines)
    over = [plots.Band("over the limit", "#a40e26", 0.1, [(1.0, most)])] if most > 1 else []
    return (plots.panel(_of_limit(study), "servers at or below (%)", lines, bands=over),)


def _strokes(found: list[Policy]) -> list[plots.Stroke]:
    return plots.strokes([policy.run.policy for policy in found])


def _iops(policy: Policy) -> NDArray[np.float64]:
    """Mean rate of each server, at full speed."""
    rate: NDArray[np.float64] = policy.native["ios"] / policy.native["duration_s"]
    return rate


def _line(stroke: plots.Stroke) -> dict[str, Any]:
    return {"color": stroke.colour, "linestyle": stroke.dashes, "linewidth": stroke.width}


def _handles(found: list[Policy]) -> list[Line2D]:
    return [
        Line2D([], [], label=policy.run.condition, marker=stroke.marker, markersize=4,
               **_line(stroke))
        for policy, stroke in zip(found, _strokes(found), strict=True)
    ]  # fmt: skip
