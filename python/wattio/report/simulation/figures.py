"""The figures of a report. Each is drawn from what `gathering` read, and comes with its table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from wattio.analysis.histogram import exceedance
from wattio.kinds.simulation import promises
from wattio.report import plots, rankings
from wattio.report.phrases import number, percent
from wattio.report.plots import WIDTH, Drawn, Table
from wattio.report.simulation.gather import Curve, LoadPart, Result
from wattio.results.runs import Run
from wattio.results.summary import Row


def winners(result: Result) -> Drawn | None:
    """Every policy's power over native's, load by load."""
    return rankings.drawn(contests(result))


def contests(result: Result) -> list[rankings.Contest]:
    """What is compared on each load: mean power for the same work, native first."""
    return [part.contest for part in result.loads if part.contest]


def of_load(part: LoadPart) -> list[Drawn]:
    """Every figure of a load that there is data for."""
    with plots.styled():
        found = [power_and_latency(part), cores_and_frequency(part)]
        found += [latency_distribution(part), power_by_component(part)]
        if part.sweep:
            found.append(sweep(part))
    return found


def power_and_latency(part: LoadPart) -> Drawn:
    """Power and mean latency over time, the subject's states shaded."""
    drawn, axes = plots.figure(WIDTH, 5.0, panels=2)
    _over_time(axes[0], part, lambda c: c.series["power_w"])
    axes[0].set_ylabel("power, simulated (W)")
    _over_time(axes[1], part, lambda c: c.series["latency_us_mean"])
    extra = _bound_line(axes[1], _bound(part))
    states = _states(part)
    shaded = _shade(axes, states)
    latencies = [curve.series["latency_us_mean"] for curve in part.curves]
    cut = plots.fit(axes[1], np.concatenate(latencies), "mean latency")
    ends_us = axes[1].get_ylim()
    plots.mark_cut(axes[0])
    _finish_time(drawn, axes, part, [*extra, *shaded])
    subject = part.subject
    told = f" Shading shows the state of {subject.label}." if subject and states else ""
    bound = " The dotted line is the bound: native times 1 + plf." if extra else ""
    if extra and subject and promises.are_given(subject.row.run):
        bound = " The dotted line is the bound on the mean."
    text = f"Each point is a mean over {_point(part)}.{told}{bound}"
    alternative = f"Two charts over time on {part.name}: power in watts and mean latency."
    table = _series_table(part, ("power_w", "latency_us_mean", "iops"))
    title = "Power and latency over time"
    panels = (
        _panel(part, "power, simulated (W)", lambda c: c.series["power_w"], states),
        _panel(
            *(part, "mean latency (µs)", lambda c: c.series["latency_us_mean"], states),
            *(_bound(part), ends_us, cut),
        ),
    )
    return Drawn("power-latency", title, text, alternative, plots.svg(drawn), table, panels)


def cores_and_frequency(part: LoadPart) -> Drawn:
    """Active cores and their mean frequency over time."""
    drawn, axes = plots.figure(WIDTH, 4.4, panels=2)
    _over_time(axes[0], part, lambda c: c.series["cores_active_mean"])
    axes[0].set_ylabel("active cores")
    _over_time(axes[1], part, lambda c: c.series["frequency_hz_mean"] / 1e9)
    axes[1].set_ylabel("core frequency (GHz)")
    for axis in axes:
        axis.set_ylim(bottom=0)
    states = _states(part)
    shaded = _shade(axes, states)
    _finish_time(drawn, axes, part, shaded)
    text = f"Each point is a mean over {_point(part)}; frequency is the mean of active cores."
    alternative = f"Two charts over time on {part.name}: active cores and their frequency."
    table = _series_table(part, ("cores_active_mean", "frequency_hz_mean"))
    title = "Active cores and frequency over time"
    panels = (
        _panel(part, "active cores", lambda c: c.series["cores_active_mean"], states),
        _panel(part, "core frequency (GHz)", lambda c: c.series["frequency_hz_mean"] / 1e9, states),
    )
    return Drawn("cores-frequency", title, text, alternative, plots.svg(drawn), table, panels)


def latency_distribution(part: LoadPart) -> Drawn:
    """Share of I/Os slower than a latency, both axes logarithmic."""
    drawn, (axis,) = plots.figure(WIDTH, 3.8)
    table: Table = [["policy", "latency_us", "share_above"]]
    lowest = 1e-2
    lines: list[plots.Line] = []
    for curve, stroke in _styled(part):
        edge, above = exceedance(curve.edge, curve.count)
        keep = above > 0
        edge, above = edge[keep], above[keep]
        table += [[curve.label, *pair] for pair in zip(edge.tolist(), above.tolist(), strict=True)]
        if len(edge):
            lowest = min(lowest, float(above[-1]))
            edge, above = plots.thinned(edge, above)
            axis.plot(edge, above, drawstyle="steps-post", **_line(stroke, len(edge)))
            lines.append((curve.label, stroke, edge, above))
    plots.exceedance_axis(axis, lowest)
    _legend(drawn, part, [])
    text = "Further left is faster; where a curve crosses a dotted line is that percentile."
    alternative = f"Distribution of latency on {part.name}: share of I/Os above each latency."
    title = "Latency distribution"
    told = "share that is slower"
    panels = (plots.panel("latency (µs)", told, lines, log=True, marks=True),) if lines else ()
    name = "latency-distribution"
    return Drawn(name, title, text, alternative, plots.svg(drawn), table, panels)


def power_by_component(part: LoadPart) -> Drawn:
    """Mean power of cores, drives and the rest, one bar for each policy."""
    names = [name for name, *_ in plots.COMPONENTS]
    table: Table = [["policy", *(f"power_{name}_w_mean" for name in names), "power_w_mean"]]
    for curve in part.curves:
        watts = [_component_w(curve.row, name) for name in names]
        table.append([curve.label, *watts, curve.row.metrics["power_w_mean"].mean])
    image, narrow = plots.images(lambda width: _components(part, width))
    text = "What the whole server draws, split into its cores, its drives and everything else."
    alternative = f"Bars of mean power by component on {part.name}, one for each policy."
    title = "Power by component"
    return Drawn("power-components", title, text, alternative, image, table, narrow=narrow)


def _components(part: LoadPart, width: float) -> Figure:
    drawn, (axis,) = plots.figure(width, 1.2 + 0.46 * len(part.curves))
    total_most = max(curve.row.metrics["power_w_mean"].mean for curve in part.curves)
    least_named = 0.07 * total_most * WIDTH / width
    for position, curve in enumerate(part.curves):
        left = 0.0
        for name, colour, hatch, ink in plots.COMPONENTS:
            value = _component_w(curve.row, name)
            axis.barh(
                position,
                value,
                left=left,
                height=0.66,
                color=colour,
                hatch=hatch,
                edgecolor="#333333",
                linewidth=0.6,
            )
            if value > least_named:
                box = {"boxstyle": "round,pad=0.15", "facecolor": colour, "edgecolor": "none"}
                middle = left + value / 2
                axis.text(
                    middle, position, number(value), ha="center", va="center", color=ink, bbox=box
                )
            left += value
        axis.text(
            left + 0.01 * total_most, position, f"{number(left)} W", va="center", weight="bold"
        )
    plots.named_rows(axis, [curve.label for curve in part.curves], narrow=width < WIDTH)
    axis.set_xlim(0, (1 + 0.12 * WIDTH / width) * total_most)
    axis.set_xlabel("mean power, simulated (W)")
    patches = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="#333333", label=name)
        for name, colour, hatch, _ in plots.COMPONENTS
    ]
    plots.legend(drawn, patches, width)
    return drawn


def sweep(part: LoadPart) -> Drawn:
    """Saving and latency over the values of one setting, one above the other."""
    run = next(row.run for row in part.sweep if row.run.sweep_setting)
    setting, base = str(run.sweep_setting), str(run.sweep_of)
    names = ("saving_share", "relative_latency_us_mean", "relative_latency_us_p99")
    table: Table = [["policy", setting, *names]]
    points = [
        (row.run.settings[setting], row) for row in part.sweep if row.mean(names[0]) is not None
    ]
    for value, row in points:
        table.append([base, value, *(row.mean(name) for name in names)])
    image, narrow = plots.images(lambda width: _sweep(run, points, names, width))
    text = f"{len(points)} values of {setting}, everything else unchanged."
    alternative = f"Power saved and relative latency on {part.name} over values of {setting}."
    title = f"Sweep of {setting}"
    return Drawn("sweep", title, text, alternative, image, table, narrow=narrow)


def _sweep(
    run: Run, points: Sequence[tuple[Any, Row]], names: Sequence[str], width: float
) -> Figure:
    setting, base = str(run.sweep_setting), str(run.sweep_of)
    numeric = all(isinstance(value, int | float) for value, _ in points)
    x: list[Any] = [value if numeric else str(value) for value, _ in points]
    drawn, axes = plots.figure(width, 4.6, panels=2)
    stroke = plots.strokes([run.policy])[0]
    style: dict[str, Any] = {"color": stroke.colour, "marker": stroke.marker, "linewidth": 1.6}
    savings = [100 * row.metrics[names[0]].mean for _, row in points]
    axes[0].plot(x, savings, **style)
    axes[0].set_ylabel("power saved (%)")
    axes[0].set_ylim(min(0.0, 1.2 * min(savings)), 1.2 * max(*savings, 1.0))
    axes[1].plot(x, [_or_nan(row.mean(names[1])) for _, row in points], **style)
    p99: dict[str, Any] = {"color": "#D55E00", "marker": "v", "linestyle": "--", "linewidth": 1.2}
    axes[1].plot(x, [_or_nan(row.mean(names[2])) for _, row in points], **p99)
    axes[1].set_ylabel("latency, relative to native")
    axes[1].set_xlabel(f"{setting} of {base}")
    handles = [Line2D([], [], label=f"{base}: saving, mean latency", **style)]
    handles.append(Line2D([], [], label="p99 latency", **p99))
    if setting == "plf" and numeric:
        bound: dict[str, Any] = {"color": "#555555", "linestyle": ":", "linewidth": 1.2}
        axes[1].plot(x, [1 + value for value in x], **bound)
        handles.append(Line2D([], [], label="bound on the mean, 1 + plf", **bound))
    plots.legend(drawn, handles, width)
    return drawn


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _component_w(row: Row, name: str) -> float:
    return row.metrics[f"energy_{name}_j"].mean / row.metrics["duration_s"].mean


def _styled(part: LoadPart) -> Iterator[tuple[Curve, plots.Stroke]]:
    """Curves with their strokes, the subject last so that it lies on top."""
    styles = plots.strokes([curve.row.run.policy for curve in part.curves])
    pairs = list(zip(part.curves, styles, strict=True))
    return iter(sorted(pairs, key=lambda pair: pair[0] is part.subject))


def _line(stroke: plots.Stroke, points: int) -> dict[str, Any]:
    return {
        "color": stroke.colour,
        "linestyle": stroke.dashes,
        "linewidth": stroke.width,
        "marker": stroke.marker,
        "markersize": 4.5,
        "markevery": max(1, points // 10),
    }


def _over_time(axis: Axes, part: LoadPart, column: Callable[[Curve], Any]) -> None:
    for curve, stroke in _styled(part):
        values = column(curve)
        axis.plot(curve.series["start_s"], values, **_line(stroke, len(values)))


def _panel(
    part: LoadPart,
    label: str,
    column: Callable[[Curve], Any],
    bands: Sequence[plots.Band],
    beside: Sequence[plots.Line] = (),
    y_ends: tuple[float, float] | None = None,
    cut: str = "",
) -> plots.Panel:
    lines: list[plots.Line] = [
        (curve.label, stroke, curve.series["start_s"], column(curve))
        for curve, stroke in _styled(part)
    ]
    lines += beside
    told: dict[str, Any] = {"y_ends": y_ends, "cut": cut, "bands": bands, "marks": True}
    return plots.panel("simulated time (s)", label, lines, **told)


def _bound(part: LoadPart) -> list[plots.Line]:
    """The subject's bound on mean latency, if it has one: native's latency times 1 + plf."""
    if not part.subject or not part.native:
        return []
    on_mean = [bound for bound in promises.of(part.subject.row.run) if bound.quantile is None]
    if not on_mean:
        return []
    bound, series = on_mean[0], part.native.series
    label = (
        f"bound, {bound.text}" if bound.share is None else f"bound, native + {percent(bound.share)}"
    )
    style: dict[str, Any] = {"color": "#D55E00", "linestyle": ":", "linewidth": 1.2}
    return [(label, style, series["start_s"], bound.limit(series["latency_us_mean"]))]


def _bound_line(axis: Axes, bounds: Sequence[plots.Line]) -> list[Line2D]:
    """The bound in a still figure, and its entry for the legend."""
    handles = []
    for label, style, x, y in bounds:
        assert isinstance(style, dict)
        axis.plot(x, y, **style)
        handles.append(Line2D([], [], label=label, **style))
    return handles


def _states(part: LoadPart) -> list[plots.Band]:
    """The subject's states over time; nothing if it has none."""
    subject = part.subject
    if subject is None or not (subject.states < len(plots.STATES)).any():
        return []
    states, start_s = subject.states, subject.states_start_s
    changes = np.flatnonzero(np.diff(states)) + 1
    begins = np.concatenate([[0], changes])
    end_s = float(subject.series["start_s"][-1] + subject.series["span_s"][-1])
    ends = np.append(start_s[changes], end_s)
    stretches: dict[int, list[tuple[float, float]]] = {}
    for begin, end in zip(begins, ends, strict=True):
        stretches.setdefault(int(states[begin]), []).append((float(start_s[begin]), float(end)))
    return [
        plots.Band(name, colour, opacity, stretches[state])
        for state, (name, colour, opacity, _) in enumerate(plots.STATES)
        if state in stretches
    ]


def _shade(axes: list[Axes], bands: list[plots.Band]) -> list[Patch]:
    """Shade states behind curves; their entries for the legend."""
    hatches = {name: hatch for name, _, _, hatch in plots.STATES}
    for band in bands:
        for axis, (start, end) in itertools.product(axes, band.stretches):
            shaded = axis.axvspan(start, end, zorder=0, facecolor=band.colour, alpha=band.opacity)
            shaded.set(linewidth=0, hatch=hatches[band.label])
    return [
        Patch(
            facecolor=band.colour,
            alpha=2 * band.opacity,
            hatch=hatches[band.label],
            label=band.label,
        )
        for band in bands
    ]


def _finish_time(drawn: Figure, axes: list[Axes], part: LoadPart, extra: list[Any]) -> None:
    axes[-1].set_xlabel("simulated time (s)")
    end_s = max(float((c.series["start_s"] + c.series["span_s"])[-1]) for c in part.curves)
    axes[-1].set_xlim(0, end_s)
    profile = part.facts.get("profile")
    spans = {segment["span_s"] for segment in profile["segments"]} if profile else set()
    if profile and len(spans) == 1:
        hours = profile["compression"] / 3600
        top = axes[0].secondary_xaxis("top", functions=(lambda s: s * hours, lambda h: h / hours))
        top.set_xlabel("hour of the profile that it stands for")
        if end_s * hours <= 48:
            top.set_xticks(np.arange(0, end_s * hours + 0.01, 3 if end_s * hours > 8 else 1))
    _legend(drawn, part, extra)


def _legend(drawn: Figure, part: LoadPart, extra: list[Any]) -> None:
    styles = plots.strokes([curve.row.run.policy for curve in part.curves])
    handles: list[Any] = []
    for curve, stroke in zip(part.curves, styles, strict=True):
        line = _line(stroke, 1) | {"markevery": 1, "label": curve.label}
        handles.append(Line2D([], [], **line))
    drawn.legend(handles=[*handles, *extra], loc="outside upper left", ncols=4, handlelength=3.2)


def _point(part: LoadPart) -> str:
    return f"{part.curves[0].point_s:g} s"


def _series_table(part: LoadPart, columns: tuple[str, ...]) -> Table:
    table: Table = [["policy", "start_s", "span_s", *columns]]
    for curve in part.curves:
        picked = [curve.series[name] for name in ("start_s", "span_s", *columns)]
        for values in zip(*(column.tolist() for column in picked), strict=True):
            shown = ["" if isinstance(v, float) and np.isnan(v) else v for v in values]
            table.append([curve.label, *shown])
    return table
