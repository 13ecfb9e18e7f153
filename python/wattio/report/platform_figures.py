"""Figures of platforms side by side: rates, what they are by watt, euro and peak, and ratios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wattio.kinds.measurement.platforms import Comparison, Joined, Line
from wattio.kinds.measurement.schema import IDLE
from wattio.report import dots, plots
from wattio.report.phrases import number
from wattio.report.plots import WIDTH, Drawn, Table
from wattio.results.compare import NAMES, Ratio

DRAWN_MAX = 12
"""Most pairs whose ratios are drawn; all of them have a table."""

_FIGURES = (
    (("throughput_mib_s", "iops"), "rate", "As measured"),
    (("mib_per_joule", "iops_per_watt", "capacity_tb_per_watt"), "watt", "By watt"),
    (("mib_s_per_eur", "iops_per_eur", "tb_per_eur"), "euro", "By euro"),
    (("peak_share",), "peak", "As a share of the theoretical peak"),
    (("edp_w1",), "product", "Energy-delay product over the least"),
)
"""For each figure the metrics of which the first that there is is drawn, its name, its title."""

_UNITS = {"peak_share": "share of the peak", "edp_w1": "times the least"}

_WIDE = 20.0
"""Values further apart are drawn on a logarithmic axis."""


def of_workloads(found: Comparison, names: Sequence[str]) -> Iterator[Drawn]:
    """For each workload its rates, and what they are for each watt, euro and share of the peak."""
    subjects = dict.fromkeys(one.of.subject for one in found.joined)
    for subject in (name for name in subjects if name != IDLE):
        own = [one for one in found.joined if one.of.subject == subject]
        for metrics, name, title in _FIGURES:
            having = [one for one in own if _first(one, metrics) is not None]
            if phases := list(dict.fromkeys(one.phase for one in having)):
                yield _figure(having, phases, names, (metrics, f"{subject}-{name}", title))


def _first(one: Joined, metrics: Sequence[str]) -> Line | None:
    """The first of some metrics that a phase has."""
    return next((line for name in metrics if (line := one.line(name)) is not None), None)


def _figure(
    own: Sequence[Joined],
    phases: Sequence[str],
    names: Sequence[str],
    kind: tuple[Sequence[str], str, str],
) -> Drawn:
    metrics, name, title = kind
    lines = [line for one in own if (line := _first(one, metrics)) is not None]
    estimated = " (estimated)" if any(line.estimated for line in lines) else ""
    text = "Mean over usable iterations; error bars are one sample deviation over repetitions."
    if metrics == ("edp_w1",):
        text = "Divided by the least of each phase and number of clients; of equal work only."
    if estimated:
        text += " Power of one platform or more is an estimate by a model."
    image, narrow = plots.images(lambda width: _panels(own, phases, names, metrics, width))
    return Drawn(
        name.lower().replace(" ", "-"),
        f"{own[0].of.subject}: {title.lower()}{estimated}",
        text,
        f"Charts of {own[0].of.subject}, {title.lower()}, platform by platform.",
        image,
        values(own, names, metrics),
        narrow=narrow,
    )


def _panels(
    own: Sequence[Joined],
    phases: Sequence[str],
    names: Sequence[str],
    metrics: Sequence[str],
    width: float,
) -> Figure:
    across = min(3 if width == WIDTH else 1, len(phases))
    down = -(-len(phases) // across)
    drawn = Figure(figsize=(width, 0.7 + 2.5 * down), layout="constrained")
    axes = [axis for row in drawn.subplots(down, across, squeeze=False) for axis in row]
    for axis in axes[len(phases) :]:
        axis.remove()
    labels = list(dict.fromkeys(_place(one) for one in own))
    systems = list(dict.fromkeys(one.of.system for one in own))
    looks = plots.series_strokes(len(names) * len(systems))
    for axis, phase in zip(axes, phases, strict=False):
        _panel(axis, [one for one in own if one.phase == phase], labels, systems, looks, metrics)
        axis.set_title(phase, fontsize=9.5, loc="left", fontweight="bold")
    handles = []
    for at, (name, system) in enumerate(_series(names, systems)):
        shown = f"{name}, {system}" if len(systems) > 1 else name
        handles.append(Line2D([], [], label=shown, **_look(looks[at])))
    drawn.legend(handles=handles, loc="outside upper left", ncols=4 if width == WIDTH else 1)
    return drawn


def _series(names: Sequence[str], systems: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, system) for system in systems for name in names]


def _place(one: Joined) -> str:
    """What stands on the x axis: the clients and other settings of a run, without its system."""
    return one.of.condition.partition(", ")[2] or one.of.condition


def _panel(
    axis: Axes,
    own: Sequence[Joined],
    labels: Sequence[str],
    systems: Sequence[str],
    looks: Sequence[plots.Stroke],
    metrics: Sequence[str],
) -> None:
    drawn: list[float] = []
    count = len(looks) // len(systems)
    for at, look in enumerate(looks):
        system, number_of = systems[at // count], at % count
        points = [
            (labels.index(_place(one)), *shown)
            for one in own
            if one.of.system == system and (shown := _point(one, metrics, number_of)) is not None
        ]
        if not points:
            continue
        places, values, spreads = zip(*points, strict=True)
        shift = (at - (len(looks) - 1) / 2) * min(0.08, 0.5 / len(looks))
        bars = spreads if any(spreads) else None
        axis.errorbar([place + shift for place in places], values, yerr=bars, capsize=3,
                      elinewidth=1.0, **_look(look))  # fmt: skip
        drawn += values
    unit = next((line.unit for one in own if (line := _first(one, metrics)) is not None), "")
    axis.set_ylabel(_UNITS.get(metrics[0], unit))
    if drawn and min(drawn) > 0 and max(drawn) / min(drawn) > _WIDE:
        axis.set_yscale("log")
    else:
        axis.set_ylim(0, 1.04 * axis.get_ylim()[1])
    axis.set_xticks(range(len(labels)), [label.removesuffix(" clients").removesuffix(" client")
                                         for label in labels])  # fmt: skip
    axis.set_xlim(-0.5, len(labels) - 0.5)
    if all(label.endswith(("client", "clients")) for label in labels):
        axis.set_xlabel("clients")


def _point(one: Joined, metrics: Sequence[str], number_of: int) -> tuple[float, float] | None:
    """What is drawn of a platform, and its deviation."""
    line = _first(one, metrics)
    value = None if line is None else line.values[number_of]
    if line is None or value is None:
        return None
    mean, deviation = value.estimate.mean, value.estimate.deviation or 0.0
    if line.metric != "edp_w1":
        return mean, deviation
    over = line.over_least[number_of]
    return None if over is None else (over, deviation * over / mean)


def _look(stroke: plots.Stroke) -> dict[str, Any]:
    return {
        "color": stroke.colour,
        "linestyle": stroke.dashes,
        "linewidth": stroke.width,
        "marker": stroke.marker,
        "markersize": 5.5,
    }


def ratios(joined: Sequence[Joined], names: Sequence[str]) -> Drawn:
    """Ratios over the first platform with their intervals, of the first phases."""
    families = [(one, family) for one in joined for family in one.families][:DRAWN_MAX]
    panels = [
        dots.Panel(
            f"{one.title}: {family[0].second_run} over {names[0]}",
            [_dot(ratio) for ratio in family if ratio.metric not in ("seconds", "energy_j")],
        )
        for one, family in families
    ]
    looks = (("beyond noise", True), ("within noise, or noise not known", False))
    handles = [
        Line2D([], [], label=label, linestyle="none", **_dot_look(beyond))
        for label, beyond in looks
    ]
    image, narrow = dots.images(panels, handles, columns=2, log=True)
    text = "Each metric over the first platform's, with its 95 % interval alone; the line is 1."
    table = values([one for one, _ in families], names)
    alternative = "Dots with error bars: the ratio of each metric over the first platform's."
    return Drawn("ratios", f"Over {names[0]}", text, alternative, image, table, narrow=narrow)


def _dot(item: Ratio) -> dots.Dot:
    name = NAMES.get(item.metric, item.metric) + (" (estimated)" if item.estimated else "")
    low_high = (item.interval.low, item.interval.high) if item.interval else None
    return dots.Dot(name, item.ratio, number(item.ratio), _dot_look(item.beyond_noise), low_high)


def _dot_look(beyond: bool) -> dict[str, Any]:
    colour = "#0072B2" if beyond else "#666666"
    return {"color": colour, "marker": "o", "markerfacecolor": colour if beyond else "white"}


def values(
    joined: Sequence[Joined], names: Sequence[str], metrics: Sequence[str] | None = None
) -> Table:
    """Every value and ratio, a line for each platform."""
    head = ["run", "phase", "metric", "unit", "platform", "estimated", "n", "mean", "deviation"]
    table: Table = [[*head, "over_least", "over", "ratio", "low", "high", "p_alone", "p_holm"]]
    for one in joined:
        for line in one.lines:
            if metrics is not None and line.metric not in metrics:
                continue
            for at, (name, value) in enumerate(zip(names, line.values, strict=True)):
                if value is None:
                    continue
                ratio = line.ratios[at - 1] if at else None
                table.append(
                    [
                        *(one.run, one.phase, line.metric, line.unit, name),
                        str(value.estimated).lower(),
                        *(value.estimate.n, value.estimate.mean),
                        *_known(value.estimate.deviation, line.over_least[at]),
                        *_tested(ratio, names[0]),
                    ]
                )
    return table


def _tested(ratio: Ratio | None, first: str) -> list[Any]:
    if ratio is None:
        return [""] * 6
    low_high = (ratio.interval.low, ratio.interval.high) if ratio.interval else (None, None)
    return [first, ratio.ratio, *_known(*low_high, ratio.p_alone, ratio.p)]


def _known(*values: float | None) -> list[float | str]:
    return ["" if value is None else value for value in values]
