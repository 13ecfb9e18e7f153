"""Figures 6 and 7: what a lower frequency, and fewer cores, do to latency, IOPS and IOPS/W."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from wattio.analysis.statistics import Interval
from wattio.report import plots
from wattio.report.plots import WIDTH, Drawn, Table

from validation.common.bars import PUBLISHED_STYLE, ends, reach
from validation.pacer.data import Evaluation, fixed, interval, load_name, together

TITLES = {
    "frequency_share": "Impact of a lower frequency (DVFS)",
    "cores_share": "Impact of fewer active cores (power gating)",
}
METRICS = (
    ("latency_us_mean", "mean latency"),
    ("latency_us_p99", "p99 latency"),
    ("iops_mean", "IOPS"),
    ("iops_per_watt", "IOPS/W"),
)
PRESSURES: tuple[tuple[float, str, str, str, Any], ...] = (
    (0.10, "10 % pressure", "#0072B2", "s", "-"),
    (1.00, "full pressure", "#D55E00", "^", "--"),
)

KNEE = 1.02
"""A mean latency over native from which on figure 7's curve has begun to rise."""

Published = dict[str, tuple[float, float]]
"""A number of the text for a metric: share of the knob, and the value."""


@dataclass(frozen=True)
class Point:
    """A simulated setting of the knob: its real share, and each metric over native."""

    share: float
    ratios: dict[str, Interval]


def frequency(study: Evaluation) -> Drawn | None:
    """Figure 6; None where nothing of it was run."""
    marks = {"latency_us_mean": (0.3, 2.5), "iops_per_watt": (0.3, 0.5)}
    text = (
        "Stands for figure 6 of the document: Rand_RW, all cores at a share of 2.6 GHz. Its curves"
        " are only drawn; the two numbers of its text, both at full pressure, are marked."
    )
    return _draw(study, "6", "frequency_share", "frequency, share of the highest", marks, text)


def cores(study: Evaluation) -> Drawn | None:
    """Figure 7; None where nothing of it was run."""
    text = (
        "Stands for figure 7 of the document: Rand_RW, a share of the cores of each group powered,"
        " rounded up by group. Its curves are only drawn; the number of its text, at 10 %"
        " pressure, is marked. Its latencies rise at 10 % pressure below 63 % of the cores"
    )
    knee = knee_percent(study)
    if knee is not None:
        text += (
            f"; the background work is fitted to that, and our mean has risen by"
            f" {100 * (KNEE - 1):.0f} % at {knee.estimate:.1f} %"
        )
    text += "."
    return _draw(
        study,
        "7",
        "cores_share",
        "active cores, share of all",
        {"iops_per_watt": (0.63, 1.18)},
        text,
    )


def points(study: Evaluation, setting: str, pressure: float) -> list[Point]:
    """The settings of a knob that were run at a pressure, by share; full speed is 1."""
    load, found = load_name("Rand_RW", pressure), []
    for label in _labels(study, load, setting):
        ratios = {metric: study.ratio(load, label, metric) for metric, _ in METRICS}
        held = study.ratio(
            load, label, "cores_active_mean" if setting == "cores_share" else "frequency_hz_mean"
        )
        known = {metric: ratio for metric, ratio in ratios.items() if ratio is not None}
        if held is not None and known:
            found.append(Point(held.estimate, known))
    return sorted(found, key=lambda point: point.share)


def knee_percent(study: Evaluation) -> Interval | None:
    """Share of the cores, in per cent, below which the mean latency has risen at 10 % pressure.

    Seed by seed, between the simulated numbers of cores; None where it never rises to KNEE.
    """
    load = load_name("Rand_RW", 0.10)
    labels = _labels(study, load, "cores_share")
    if not labels:
        return None
    shares, latencies = (
        together(*(study.by_seed(load, label, metric) for label in labels))
        for metric in ("cores_active_mean", "latency_us_mean")
    )
    curves = zip(shares, latencies, strict=True)
    found = [rises_below([*zip(*curve, strict=True)]) for curve in curves]
    known = [100 * share for share in found if share is not None]
    return interval(known) if known and len(known) == len(found) else None


def rises_below(curve: list[tuple[float, float]]) -> float | None:
    """The share at which latency reaches KNEE on the way down from all cores; None where never.

    `curve` holds shares of the cores and mean latencies over native, in any order.
    """
    above: tuple[float, float] | None = None
    for share, latency in sorted(curve, reverse=True):
        if latency >= KNEE:
            if above is None:
                return share
            way = (KNEE - above[1]) / (latency - above[1])
            return above[0] + way * (share - above[0])
        above = (share, latency)
    return None


def _labels(study: Evaluation, load: str, setting: str) -> list[str]:
    """The runs at a fixed setting of a knob, full speed among them."""
    found = []
    for label in study.labels(load):
        run = study.run(load, label)
        if run is None or run.policy != "fixed":
            continue
        if label == fixed(setting, 1) or run.sweep_setting == setting:
            found.append(label)
    return found


def _draw(
    study: Evaluation, number: str, setting: str, across: str, marks: Published, text: str
) -> Drawn | None:
    curves = [(style, points(study, setting, style[0])) for style in PRESSURES]
    if not any(found for _, found in curves):
        return None
    with plots.styled():
        figure = Figure(figsize=(WIDTH, 5.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True)
        for axis, (metric, name) in zip(axes.flat, METRICS, strict=True):
            for (_, _, colour, marker, dashes), found in curves:
                _curve(
                    axis, metric, found, {"color": colour, "marker": marker, "linestyle": dashes}
                )
            if metric in marks:
                share, value = marks[metric]
                axis.plot([100 * share], [value], zorder=5, **PUBLISHED_STYLE)
            axis.axhline(1, color="#000000", linewidth=0.8)
            axis.set_ylabel(f"{name}, relative to native")
        for axis in axes[1]:
            axis.set_xlabel(f"{across} (%)")
        handles = [
            Line2D([], [], color=colour, marker=marker, linestyle=dashes, label=name)
            for _, name, colour, marker, dashes in PRESSURES
        ]
        handles.append(Line2D([], [], **PUBLISHED_STYLE))
        figure.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=3)
        image = plots.svg(figure)
    alternative = f"Latency, IOPS and IOPS/W over native, by {across}, at 10 % and full pressure."
    title = f"Figure {number}: {TITLES[setting]}"
    name = f"published-figure-{number}"
    return Drawn(name, title, text, alternative, image, _table(setting, curves, marks))


def _curve(axis: Axes, metric: str, found: list[Point], style: dict[str, Any]) -> None:
    known = [point for point in found if metric in point.ratios]
    values = [point.ratios[metric] for point in known]
    axis.errorbar(
        [100 * point.share for point in known],
        [value.estimate for value in values],
        reach(values),
        **style,
        markersize=4.5,
        capsize=2,
    )


def _table(
    setting: str,
    curves: list[tuple[tuple[float, str, str, str, Any], list[Point]]],
    marks: Published,
) -> Table:
    rows: Table = [["pressure", setting, "metric", "mean", "low", "high"]]
    for style, found in curves:
        for point in found:
            for metric, value in point.ratios.items():
                rows.append([style[0], point.share, metric, *ends(value)])
    rows += [
        ["published", share, metric, value, "", ""] for metric, (share, value) in marks.items()
    ]
    return rows
