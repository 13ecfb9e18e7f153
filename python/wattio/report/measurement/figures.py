"""The figures of a workload that was measured: one panel for each phase, the same way in all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from wattio.report import plots
from wattio.report.measurement.gather import Measured, PhasePart, WorkloadPart
from wattio.report.plots import WIDTH, Drawn, Table
from wattio.results.summary import Row

Value = tuple[float, float | None]
"""What is drawn, and half the length of its error bar where there is one."""

ValueOf = Callable[[Row], Value | None]

UNITS = {
    "throughput_mib_s": "throughput (MiB/s)",
    "iops": "operations per second",
    "mib_per_joule": "MiB/J",
    "iops_per_watt": "operations/J",
    "files_per_s": "files per second",
    "files_per_joule": "files/J",
}

_BAR: dict[str, Any] = {"edgecolor": "#222222", "linewidth": 0.7}
_DODGE = 0.1


def of_workload(part: WorkloadPart, found: Measured) -> list[Drawn]:
    """Rates, efficiency and energy-delay products, where there are any."""
    return list(_figures(part, found))


def _figures(part: WorkloadPart, found: Measured) -> Iterator[Drawn]:
    # One bar is no figure: its number stands in the table, and beside others in what won.
    rated = [p for p in part.phases if p.rate is not None and p.used() and len(p.rows) > 1]
    if rated:
        yield _rates(part, rated)
    efficient = [phase for phase in rated if any(row.get(phase.efficiency) for row in phase.used())]
    if efficient:
        yield _efficiencies(part, efficient, found)
    compared = [phase for phase in part.phases if phase.comparisons]
    if compared:
        yield _products(part, compared, found)


def grid(count: int, height: float, width: float) -> tuple[Figure, list[Axes]]:
    """A figure of equal panels side by side and below each other, each `height` inches high.

    For narrow screens they all stand below each other.
    """
    columns = 1 if width < WIDTH else count if count <= 3 else 2 if count == 4 else 3
    lines = -(-count // columns)
    tall = height if columns > 1 else 1.2 * height
    drawn = Figure(figsize=(width, 0.45 + lines * tall), layout="constrained")
    axes = [axis for row in drawn.subplots(lines, columns, squeeze=False) for axis in row]
    for axis in axes[count:]:
        axis.remove()
    return drawn, axes[:count]


def titled(axis: Axes, part: WorkloadPart, phase: str) -> None:
    """The phase above a panel, and what stands on its x axis."""
    axis.set_title(phase, fontsize=9.5, loc="left", fontweight="bold")
    axis.set_xticks(range(len(part.x_labels)), list(part.x_labels))
    axis.set_xlim(-0.5, len(part.x_labels) - 0.5)
    axis.grid(visible=False, axis="x")
    if part.x_name is not None:
        axis.set_xlabel(part.x_name)
    if sum(map(len, part.x_labels)) > 34:
        axis.tick_params(axis="x", labelrotation=40)


def _from_zero(axis: Axes) -> None:
    """Let an axis begin at zero, with room above for whole markers."""
    axis.set_ylim(0, 1.04 * axis.get_ylim()[1])


def _rates(part: WorkloadPart, phases: Sequence[PhasePart]) -> Drawn:
    """Throughput or operations a second, and the share of the peak on a second axis."""

    def draw(width: float) -> Figure:
        drawn, axes = grid(len(phases), 2.5, width)
        for axis, phase in zip(axes, phases, strict=True):
            rate = phase.rate or "iops"
            _draw(axis, phase, [_metric(rate)])
            titled(axis, part, phase.name)
            axis.set_ylabel(UNITS[rate])
            _from_zero(axis)
            _peak_axis(axis, phase, rate)
        _legend(drawn, phases[0], (), width)
        return drawn

    text = f"Mean over usable iterations, {_counts(phases)}"
    if any(_peak_scale(phase, phase.rate or "iops") for phase in phases):
        text += " The axis on the right is the share of the theoretical peak."
    alternative = "Charts of throughput or operations per second, phase by phase."
    table = _table(phases, lambda phase: (phase.rate or "iops", "peak_share"))
    title = "Throughput" if _has(phases, "throughput_mib_s") else ""
    if _has(phases, "iops"):
        title = f"{title} and operations" if title else "Operations per second"
    image, narrow = plots.images(draw)
    return Drawn("rates", title, text, alternative, image, table, narrow=narrow)


def _efficiencies(part: WorkloadPart, phases: Sequence[PhasePart], found: Measured) -> Drawn:
    """Work for each joule, gross, and net where a device is taken off."""
    net = bool(found.study.subtract)

    def draw(width: float) -> Figure:
        drawn, axes = grid(len(phases), 2.5, width)
        for axis, phase in zip(axes, phases, strict=True):
            name = phase.efficiency
            _draw(axis, phase, [_metric(name), *([_metric(f"{name}_net")] if net else [])])
            titled(axis, part, phase.name)
            axis.set_ylabel(labelled(UNITS[name], found))
            _from_zero(axis)
        kinds = ("gross", "net of what is subtracted") if net else ()
        _legend(drawn, phases[0], kinds, width)
        return drawn

    text = f"Mean of rate over power, iteration by iteration, {_counts(phases)}"
    if net:
        text += " Gross is all that is metered; net is less the subtracted devices."
    alternative = "Charts of work per joule, phase by phase."
    table = _table(phases, lambda phase: (phase.efficiency, f"{phase.efficiency}_net"))
    title = called("Efficiency", found)
    image, narrow = plots.images(draw)
    return Drawn("efficiency", title, text, alternative, image, table, narrow=narrow)


def _products(part: WorkloadPart, phases: Sequence[PhasePart], found: Measured) -> Drawn:
    """Energy-delay products, divided by the least of each comparison."""
    weights = found.study.study.edp_weights

    def draw(width: float) -> Figure:
        drawn, axes = grid(len(phases), 2.4, width)
        for axis, phase in zip(axes, phases, strict=True):
            _draw(axis, phase, [_product_of(phase, weight) for weight in weights])
            titled(axis, part, phase.name)
            axis.axhline(1, color="#777777", linewidth=0.8, linestyle=":")
            axis.set_ylabel(labelled("E·t$^w$, to the least", found))
            _from_zero(axis)
        _legend(drawn, phases[0], [f"w = {weight}" for weight in weights], width)
        return drawn

    table: Table = [["phase", "run", "weight", "normalised_edp", "normalised_edp_net"]]
    for phase in phases:
        for row in phase.used():
            for weight in weights:
                pair = [product(phase, row, weight, net=net) for net in (False, True)]
                if pair[0] is not None:
                    values = ["" if value is None else value[0] for value in pair]
                    table.append([phase.name, row.run.name, weight, *values])
    text = "Energy times time to the power w, divided by the least value of each comparison: 1 is"
    text += " the best"
    if found.estimated:
        text += " with the model's coefficients as they stand, and may be another one with others"
    text += ". Only rows that did the same work are compared"
    one = all(len(phase.comparisons) == 1 for phase in phases)
    text += "." if one else "; here those of equally many clients, each group by itself."
    alternative = "Charts of normalised energy-delay products, phase by phase."
    title = called("Normalised energy-delay product", found)
    image, narrow = plots.images(draw)
    return Drawn("edp", title, text, alternative, image, table, narrow=narrow)


def product(phase: PhasePart, row: Row, weight: int, net: bool = False) -> Value | None:
    """A row's normalised energy-delay product, where it is in a comparison."""
    for comparison in phase.comparisons:
        found = (comparison.net if net else comparison.products)[weight]
        if row.run.name in found:
            return found[row.run.name], None
    return None


def called(text: str, found: Measured) -> str:
    """A label, with the word where what it names is an estimate."""
    return f"{text}, ESTIMATE" if found.estimated else text


def labelled(text: str, found: Measured) -> str:
    """The label of an axis, with the word below where what it names is an estimate."""
    return f"{text}\nESTIMATE" if found.estimated else text


def _metric(name: str) -> ValueOf:
    def value(row: Row) -> Value | None:
        found = row.get(name)
        return None if found is None else (found.mean, found.deviation)

    return value


def _product_of(phase: PhasePart, weight: int) -> ValueOf:
    return lambda row: product(phase, row, weight)


def _draw(axis: Axes, phase: PhasePart, kinds: Sequence[ValueOf]) -> None:
    """Each series as a line over the x axis; where there is none, bars side by side."""
    if len(phase.lines) == 1 and not phase.lines[0].label:
        _bars(axis, phase, kinds)
        return
    strokes = plots.series_strokes(len(phase.lines))
    total = len(phase.lines) * len(kinds)
    step = min(_DODGE, 0.6 / total)
    for kind, value_of in enumerate(kinds):
        for number, (line, stroke) in enumerate(zip(phase.lines, strokes, strict=True)):
            shift = (number * len(kinds) + kind - (total - 1) / 2) * step
            values = [None if row is None else value_of(row) for row in line.rows]
            places = [place for place, value in enumerate(values) if value is not None]
            if not places:
                continue
            some = [value for value in values if value is not None]
            errors = [value[1] or 0.0 for value in some]
            axis.errorbar(
                [place + shift for place in places],
                [value[0] for value in some],
                yerr=errors if any(errors) else None,
                **_stroke(stroke, kind),
            )


def _stroke(stroke: plots.Stroke, kind: int) -> dict[str, Any]:
    """The look of a series; the second and later kinds are open, thin and dotted."""
    return {
        "color": stroke.colour,
        "linestyle": stroke.dashes if kind == 0 else ":",
        "linewidth": stroke.width if kind == 0 else 1.0,
        "marker": stroke.marker,
        "markersize": 5.5,
        "markerfacecolor": stroke.colour if kind == 0 else "white",
        "capsize": 3,
        "elinewidth": 1.0,
    }


def _bars(axis: Axes, phase: PhasePart, kinds: Sequence[ValueOf]) -> None:
    width = min(0.7 / len(kinds), 0.35)
    for kind, value_of in enumerate(kinds):
        for place, row in enumerate(phase.lines[0].rows):
            value = None if row is None else value_of(row)
            if value is None:
                continue
            at = place + (kind - (len(kinds) - 1) / 2) * width
            style = _BAR | plots.bar(kind)
            axis.bar(at, value[0], width, yerr=value[1] or None, capsize=3, **style)


def _legend(drawn: Figure, phase: PhasePart, kinds: Sequence[str], width: float) -> None:
    """What series and kinds look like, above the panels."""
    handles: list[Any] = []
    if len(phase.lines) == 1 and not phase.lines[0].label:
        for kind, name in enumerate(kinds):
            handles.append(Patch(label=name, **(_BAR | plots.bar(kind))))
    else:
        strokes = plots.series_strokes(len(phase.lines))
        for line, stroke in zip(phase.lines, strokes, strict=True):
            style = _stroke(stroke, 0)
            style = {key: style[key] for key in ("color", "linestyle", "linewidth", "marker")}
            handles.append(Line2D([], [], label=line.label, **style))
        for kind, name in enumerate(kinds):
            style = {"color": "#444444", "marker": "o", "linestyle": "-" if kind == 0 else ":"}
            style["markerfacecolor"] = "#444444" if kind == 0 else "white"
            handles.append(Line2D([], [], label=name, **style))
    plots.legend(drawn, handles, width)


def _peak_axis(axis: Axes, phase: PhasePart, rate: str) -> None:
    scale = _peak_scale(phase, rate)
    if scale is None:
        return
    functions = (lambda value: 100 * scale * value, lambda share: share / (100 * scale))
    right = axis.secondary_yaxis("right", functions=functions)
    right.set_ylabel("% of peak")


def _peak_scale(phase: PhasePart, rate: str) -> float | None:
    """Share of the peak for each unit of rate; None if rows have none, or not one alone."""
    found = []
    for row in phase.used():
        share, value = row.get("peak_share"), row.get(rate)
        if share is not None and value is not None and value.mean > 0:
            found.append(share.mean / value.mean)
    if not found or max(found) > 1.001 * min(found) or min(found) <= 0:
        return None
    return found[0]


def _has(phases: Sequence[PhasePart], rate: str) -> bool:
    return any(phase.rate == rate for phase in phases)


def _counts(phases: Sequence[PhasePart]) -> str:
    """What error bars are, and how many iterations stand behind a mean."""
    counts = sorted({row.used for phase in phases for row in phase.used()})
    if counts == [1]:
        return "n = 1, so there are no error bars."
    several = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    bars = "error bars are ± one sample deviation over repetitions"
    return f"{several}; {bars}."


def _table(phases: Sequence[PhasePart], names: Callable[[PhasePart], Sequence[str]]) -> Table:
    table: Table = [["phase", "run", "metric", "unit", "n", "mean", "deviation", "low", "high"]]
    for phase in phases:
        for row in phase.used():
            for name in names(phase):
                found = row.get(name)
                if found is None:
                    continue
                shown = f"estimated_{name}" if row.is_estimated(name) else name
                ends = found.interval
                low, high = (ends.low, ends.high) if ends else ("", "")
                deviation = "" if found.deviation is None else found.deviation
                head = [phase.name, row.run.name, shown, found.unit]
                table.append([*head, found.n, found.mean, deviation, low, high])
    return table
