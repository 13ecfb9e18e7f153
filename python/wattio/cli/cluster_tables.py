"""What `wattio advise cluster` prints: tables and sentences, or one JSON object."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from rich.table import Table

from wattio.cli import output
from wattio.peak import advice as words

if TYPE_CHECKING:
    from wattio.analysis.cluster import Achieved
    from wattio.analysis.peak import Peak
    from wattio.analysis.statistics import Interval
    from wattio.models.cluster import Advice, Judged, Nodes, Predicted
    from wattio.models.purchases import Purchase

BEYOND = 1.02
"""From this share of a limit on it is said that something goes beyond it."""

ASSUMED = (
    "a client has one link, as fast as a server's",
    "of what a part allows, what was reached to all of it can be had, 80 % at least; the time that"
    " this does not explain stays as it is when parts of a node become faster",
    "added nodes do as much as the present ones, on average: nothing that all share"
    " (a metadata server, a switch) gets in their way",
    "linear: every node does what it does now, whatever is bought for it",
    "rates after a purchase assume as many clients as needed",
    "added parts are as fast as the present ones",
)
"""What is taken for granted; printed with every advice."""


def as_object(
    found: list[Advice], peak: Peak, bought: list[Purchase], draws: int, seed: int
) -> dict[str, Any]:
    """What `--json` prints: estimates are medians, low and high a 95 % interval."""
    return {
        "cluster": peak.name,
        "rule": peak.rule,
        "draws": draws,
        "seed": seed,
        "assumed": list(ASSUMED),
        "unpriced": [one.name for one in bought if one.price_eur is None],
        "without_power": [one.name for one in bought if one.power_w is None],
        "phases": [_advice_object(one) for one in found],
    }


def _advice_object(one: Advice) -> dict[str, Any]:
    judged, achieved = one.judged, one.judged.achieved
    return {
        "run": achieved.run,
        "phase": achieved.phase,
        "clients": achieved.clients or None,
        "quantity": f"{achieved.quantity.direction}_{achieved.quantity.measure}",
        "unit": words.unit(achieved.quantity),
        "repetitions": len(achieved.rates),
        "measured": bool(achieved.rates),
        "power_is_estimate": achieved.estimated,
        "stored_share": achieved.stored_share,
        "rate": _ends(judged.rate),
        "of_limit": _ends(judged.of_peak),
        "bound": judged.bound,
        "bound_share": judged.bound_share,
        "used": [{"part": used.part, "share": _ends(used.share)} for used in judged.used],
        "not_known": list(judged.unknown),
        "estimates": [_predicted_object(item) for item in one.predicted],
        "nodes": None if one.nodes is None else _nodes_object(one.nodes),
    }


def _predicted_object(item: Predicted) -> dict[str, Any]:
    return {
        "purchase": None if item.purchase is None else item.purchase.name,
        "price_eur": None if item.purchase is None else item.purchase.price_eur,
        "power_w": None if item.purchase is None else item.purchase.power_w,
        "rate": _ends(item.rate),
        "limit": _ends(item.limit),
        "linear": _ends(item.linear),
        "gain": _ends(item.gain),
        "gain_per_eur": _ends(item.gain_per_eur),
        "gain_per_w": _ends(item.gain_per_w),
        "rate_per_w": _ends(item.rate_per_w),
        "first_by_eur": item.first_by_eur,
        "first_by_w": item.first_by_w,
    }


def _nodes_object(item: Nodes) -> dict[str, Any]:
    return {
        "rate": item.wanted,
        "now": item.now,
        "nodes": _ends(item.nodes),
        "at_peak": _ends(item.at_peak),
        "clients": item.clients or None,
        "power_w": _ends(item.power_w),
        "joules_per_unit": _ends(item.joules_per_unit),
        "price_eur": _ends(item.price_eur),
    }


def _ends(value: Interval | None) -> dict[str, float | None] | None:
    """An interval; an end that no number reaches is absent."""
    if value is None:
        return None
    ends = {"estimate": value.estimate, "low": value.low, "high": value.high}
    return {name: end if isfinite(end) else None for name, end in ends.items()}


def show(found: list[Advice], peak: Peak, bought: list[Purchase]) -> None:
    """Print tables, then what they come to in words."""
    console = output.console()
    console.print(_bounds([one.judged for one in found], peak))
    for text in _remarks([one.judged for one in found]):
        console.print(text, highlight=False)
    for one in found:
        if len(one.predicted) > 1:
            console.print()
            console.print(_predictions(one))
            for text in _next(one):
                console.print(text, highlight=False)
        if one.nodes is not None:
            console.print()
            for text in _nodes(one, one.nodes):
                console.print(text, highlight=False)
    for one_bought in bought:
        if one_bought.price_eur is None:
            console.print(f"{one_bought.name}: no price_eur, so no rate by euro", highlight=False)
        if one_bought.power_w is None:
            console.print(f"{one_bought.name}: no power, so no rate by watt", highlight=False)
    console.print("\nAssumed:")
    for text in ASSUMED:
        console.print(f"  {text}", highlight=False)


def _bounds(judged: list[Judged], peak: Peak) -> Table:
    title = f"{peak.name}: what bounds it, by the rule {peak.rule}"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("phase")
    table.add_column("rate", justify="right")
    table.add_column("", justify="right")
    table.add_column("bound by", style="bold")
    table.add_column("in draws", justify="right")
    table.add_column("used of what it allows")
    for one in judged:
        parts = ", ".join(f"{used.part} {_percent(used.share)}" for used in one.used)
        table.add_row(
            one.achieved.name,
            *_rate(one.rate, one.achieved),
            one.bound,
            output.share(one.bound_share),
            parts,
        )
    return table


def _rate(value: Interval, achieved: Achieved) -> tuple[str, str]:
    low, high = output.number(value.low), output.number(value.high)
    unit = words.unit(achieved.quantity)
    return f"{output.number(value.estimate)} {unit}", f"({low} to {high})"


def _percent(value: Interval) -> str:
    low, high = 100 * value.low, 100 * value.high
    if high - low < 1:
        return f"{100 * value.estimate:.0f} %"
    return f"{100 * value.estimate:.0f} % ({low:.0f} to {high:.0f})"


def _remarks(judged: list[Judged]) -> list[str]:
    """What a reader has to know of verdicts: each remark once, with the phases that it is of."""
    of: dict[str, list[str]] = {}
    for one in judged:
        for text in _remarks_of(one):
            of.setdefault(text, []).append(one.achieved.name)
    return [
        f"{'every phase' if len(names) == len(judged) > 1 else '; '.join(names)}: {text}"
        for text, names in of.items()
    ]


def _remarks_of(one: Judged) -> list[str]:
    told = []
    if one.unknown:
        lead = "software, or what is not known: " if one.bound == "software" else "not known: "
        told.append(lead + ", ".join(one.unknown))
    if one.of_peak.estimate > BEYOND:
        told.append("beyond what the parts allow: a cache helps, or parts are faster than that")
    if len(one.achieved.rates) == 1:
        told.append("one repetition, whose noise is unknown")
    if one.achieved.stored_share != 1:
        told.append(f"{one.achieved.stored_share:g} bytes are stored for each byte written")
    return told


def _predictions(one: Advice) -> Table:
    achieved = one.judged.achieved
    unit = words.unit(achieved.quantity)
    estimated = ", power by a model" if achieved.estimated else ""
    table = Table(
        title=f"{achieved.name}: estimated, not measured ({unit}{estimated})",
        title_justify="left",
        box=None,
    )
    table.add_column("with")
    headings = ("rate", "", "linear", "EUR", "W more", "gain by euro", "gain by watt", "by watt")
    for heading in headings:
        table.add_column(heading, justify="right")
    for item in one.predicted:
        bought = item.purchase
        table.add_row(
            "nothing new" if bought is None else bought.name,
            *_cells(item.rate),
            output.number(item.linear.estimate),
            output.number(None if bought is None else bought.price_eur),
            output.number(None if bought is None else bought.power_w),
            " ".join(_cells(item.gain_per_eur)),
            " ".join(_cells(item.gain_per_w)),
            output.number(None if item.rate_per_w is None else item.rate_per_w.estimate),
        )
    return table


def _cells(value: Interval | None) -> tuple[str, str]:
    if value is None:
        return output.ABSENT, ""
    low, high = output.number(value.low), output.number(value.high)
    return output.number(value.estimate), f"({low} to {high})"


def _next(one: Advice) -> list[str]:
    """What the next euro and the next watt should buy."""
    found = []
    for what, first_of in (("euro", "first_by_eur"), ("watt", "first_by_w")):
        shares = [
            (share, item.purchase.name)
            for item in one.predicted
            if item.purchase is not None and (share := getattr(item, first_of)) is not None
        ]
        if not shares:
            continue
        share, name = max(shares)
        if share == 0:
            found.append(f"The next {what}: none of these would help {one.judged.achieved.name}.")
            continue
        found.append(
            f"The next {what} should buy: {name} (the most in {output.share(share)} of draws)"
        )
    return found


def _nodes(one: Advice, nodes: Nodes) -> list[str]:
    """Nodes, watts and joules for a wished rate."""
    achieved = one.judged.achieved
    unit = words.unit(achieved.quantity)
    lead = f"for {words.figure(nodes.wanted)} {unit} ({achieved.name}), estimated"
    found = [
        f"{lead}: nodes as they are {_count(nodes.nodes)}, if all were at their peak"
        f" {_count(nodes.at_peak)}; there are {nodes.now}"
    ]
    if nodes.clients:
        links = (
            "link of 1 client is" if nodes.clients == 1 else f"links of {nodes.clients} clients are"
        )
        found.append(f"  the {links} needed")
    if nodes.power_w is not None and nodes.joules_per_unit is not None:
        each = "I/O" if unit == "IOPS" else "MiB"
        by = " (estimated power)" if achieved.estimated else ""
        found.append(
            f"  {_count(nodes.power_w)} W{by}, {_count(nodes.joules_per_unit)} J for each {each}"
        )
    else:
        found.append("  power is not known: give --runs that have it")
    if nodes.price_eur is not None:
        found.append(f"  {_count(nodes.price_eur)} EUR for the additional nodes")
    return found


def _count(value: Interval) -> str:
    low, high = output.number(value.low), output.number(value.high)
    text = output.number(value.estimate)
    if low == high:
        return text
    beyond = "more than can be told" if not isfinite(value.high) else high
    return f"{text} ({low} to {beyond})"
