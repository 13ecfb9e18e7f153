"""The figures of a governor's report. Each is drawn from what was gathered, and has its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from wattio.analysis.histogram import exceedance
from wattio.report import plots
from wattio.report.governor.gather import STATE_SHARES, Governed
from wattio.report.governor.phrases import duration
from wattio.report.plots import WIDTH, Drawn, Table

_GAP_S = 1.0
"""A curve is interrupted where no window covers this much time, and no less than a point's."""

MEASURED: dict[str, Any] = {"color": "#000000", "linewidth": 1.1}
SEEN: dict[str, Any] = {"color": "#0072B2", "linewidth": 1.6}
BOUND: dict[str, Any] = {"color": "#D55E00", "linestyle": ":", "linewidth": 1.5}
BASELINE: dict[str, Any] = {"color": "#666666", "linestyle": (0, (5.0, 2.0)), "linewidth": 1.1}
FULL_SPEED: dict[str, Any] = {"color": "#E69F00", "linestyle": (0, (5.0, 2.0)), "linewidth": 1.4}
BROKEN: dict[str, Any] = {"color": "#A40E26", "marker": "|", "markersize": 9, "linestyle": "none"}

_OF_GROUPS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_DASHES = ("-", (0, (5.0, 2.0)), (0, (2.0, 1.5)), (0, (6.0, 2.0, 1.0, 2.0)))


def of_result(found: Governed) -> list[Drawn]:
    """Every figure that there is data for."""
    if not len(found.series["start_s"]):
        return []
    with plots.styled():
        return list(_figures(found))


def _figures(found: Governed) -> Iterator[Drawn]:
    if found.has("latency_us_mean") or found.has("latency_us_seen"):
        yield latency(found)
    if found.has("power_w_estimated") or found.has("power_w_measured"):
        yield power(found)
    yield cores_and_frequency(found)
    if any((found.series[name] > 0).any() for name in STATE_SHARES):
        yield states(found)
    if len(found.count):
        yield distribution(found)


def latency(found: Governed) -> Drawn:
    """Mean latency against bound and baseline; marks where the bound was broken."""
    drawn, (axis,) = plots.figure(WIDTH, 3.8)
    time = _Time(found)
    handles: list[Any] = []
    handles.append(time.draw(axis, "baseline_us", "baseline, learned at full speed", BASELINE))
    handles.append(time.draw(axis, "bound_us", "bound", BOUND))
    measured = "measured, at full speed" if found.shadow else "measured"
    handles.append(time.draw(axis, "latency_us_mean", measured, MEASURED))
    if found.shadow:
        label = "predicted for the setting (estimate)"
        handles.append(time.draw(axis, "latency_us_seen", label, SEEN))
    mean, most = found.series["latency_us_seen"], found.series["latency_us_seen_max"]
    if found.step > 1 and np.isfinite(most).any():
        (x, low), (_, high) = time.steps(mean), time.steps(most)
        band: dict[str, Any] = {"facecolor": SEEN["color"] if found.shadow else "#000000"}
        axis.fill_between(x, low, high, step="post", alpha=0.18, linewidth=0, **band)
        handles.append(Patch(label="up to the slowest window of a step", alpha=0.18, **band))
    shown = (found.series["latency_us_mean"], most, found.series["bound_us"])
    plots.fit(axis, np.concatenate(shown), "mean latency")
    broken = found.series["violations"] > 0
    if broken.any():
        label = "bound broken (estimate)" if found.shadow else "bound broken"
        middle_s = (found.series["start_s"] + found.series["end_s"])[broken] / 2
        top = axis.get_xaxis_transform()
        axis.plot(middle_s / time.unit_s, np.full(broken.sum(), 0.02), transform=top, **BROKEN)
        handles.append(Line2D([], [], label=label, **BROKEN))
    time.finish(drawn, axis, handles)
    text = f"{_points(found)} Means are weighted by requests."
    if broken.any():
        text += " Marks at the foot show points with a window above the bound while saving."
    alternative = "Chart of mean latency over time, with its baseline and its bound."
    columns = (
        *("requests", "latency_us_mean", "latency_us_seen", "latency_us_seen_max"),
        *("baseline_us", "bound_us", "windows_bounded", "violations"),
    )
    title = "Latency against its bound"
    panels = (time.panel("mean latency (µs)"),)
    table = _table(found, columns)
    return Drawn("latency", title, text, alternative, plots.svg(drawn), table, panels)


def power(found: Governed) -> Drawn:
    """Estimated power of the setting and at full speed, and measured power."""
    drawn, (axis,) = plots.figure(WIDTH, 3.4)
    time = _Time(found)
    would = "setting that would be in force" if found.shadow else "setting in force"
    handles = [time.draw(axis, "power_w_full_speed_estimated", "full speed (estimate)", FULL_SPEED)]
    handles.append(time.draw(axis, "power_w_estimated", f"{would} (estimate)", SEEN))
    measured = "measured, at full speed" if found.shadow else "measured"
    handles.append(time.draw(axis, "power_w_measured", measured, MEASURED))
    axis.set_ylim(bottom=0)
    axis.set_ylabel("power (W)")
    time.finish(drawn, axis, handles)
    text = f"{_points(found)} Estimates come from the power model named below."
    if not found.has("power_w_measured"):
        text += " No meter was read."
    alternative = "Chart of power in watts over time: estimated for the setting and full speed."
    columns = ("power_w_estimated", "power_w_full_speed_estimated", "power_w_measured")
    title = "Power"
    panels = (time.panel("power (W)"),)
    table = _table(found, columns)
    return Drawn("power", title, text, alternative, plots.svg(drawn), table, panels)


def cores_and_frequency(found: Governed) -> Drawn:
    """Active cores of each group and, where a knob turns it, their frequency."""
    groups = found.folder.groups
    turned = any(found.has(f"frequency_hz_{group}") for group in groups)
    drawn, axes = plots.figure(WIDTH, 4.4 if turned else 2.8, panels=2 if turned else 1)
    time, ghz = _Time(found), _Time(found)
    handles: list[Any] = []
    for at, group in enumerate(found.machine.groups):
        style = {"color": _OF_GROUPS[at % len(_OF_GROUPS)], "linewidth": 1.6}
        style["linestyle"] = _DASHES[at % len(_DASHES)]
        label = f"{group.name}, cores {group.cores}"
        handles.append(time.draw(axes[0], f"cores_{group.name}", label, style))
        if turned:
            ghz.draw(axes[1], f"frequency_hz_{group.name}", label, style, scale=1e-9)
    axes[0].set_ylabel("active cores")
    most = max((group.cores_total or 0 for group in found.machine.groups), default=0)
    axes[0].set_ylim(0, 1.06 * max(most, axes[0].get_ylim()[1]))
    if turned:
        axes[1].set_ylabel("frequency (GHz)")
        axes[1].set_ylim(bottom=0)
    time.finish(drawn, axes[-1], handles)
    text = f"{_points(found)} One curve for each group of cores."
    if found.shadow:
        text += " What would have been set; nothing was turned."
    if not turned:
        text += " No knob turns the frequency."
    alternative = "Charts over time of active cores and of their frequency, group by group."
    columns = tuple(f"{kind}_{g}" for kind in ("cores", "frequency_hz") for g in groups)
    title = "Active cores and frequency" if turned else "Active cores"
    title += ", had it acted" if found.shadow else ""
    panels = (time.panel("active cores"), *([ghz.panel("frequency (GHz)")] if ghz.lines else []))
    table = _table(found, columns)
    return Drawn("cores", title, text, alternative, plots.svg(drawn), table, panels)


def states(found: Governed) -> Drawn:
    """Share of time in each state."""
    image, narrow = plots.images(lambda width: _states(found, width))
    text = f"{_points(found)} What the law decided at the end of each window."
    alternative = "Strip over time: share of time in the states unstable, stable and idle."
    table = _table(found, STATE_SHARES)
    return Drawn("states", "State of the law", text, alternative, image, table, narrow=narrow)


def _states(found: Governed, width: float) -> Figure:
    drawn, (axis,) = plots.figure(width, 1.7 if width == WIDTH else 2.2)
    time = _Time(found)
    low = np.zeros(len(found.series["start_s"]))
    handles = []
    for name, (label, colour, opacity, hatch) in zip(STATE_SHARES, plots.STATES, strict=True):
        high = low + np.nan_to_num(found.series[name])
        (x, bottom), (_, top) = time.steps(100 * low), time.steps(100 * high)
        style: dict[str, Any] = {"facecolor": colour, "alpha": min(1.0, 3 * opacity)}
        axis.fill_between(x, bottom, top, step="post", linewidth=0, hatch=hatch, **style)
        handles.append(Patch(label=label, hatch=hatch, **style))
        low = high
    axis.set_ylim(0, 100)
    axis.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    axis.set_ylabel("share of time")
    time.finish(drawn, axis, handles, width)
    return drawn


def distribution(found: Governed) -> Drawn:
    """Share of requests slower than a latency, both axes logarithmic."""
    drawn, (axis,) = plots.figure(WIDTH, 3.8)
    edge, above = exceedance(found.edge, found.count)
    table: Table = [["latency_us", "share_above"]]
    table += [list(pair) for pair in zip(edge.tolist(), above.tolist(), strict=True)]
    keep = (above > 0) & np.isfinite(edge) & (edge > 0)
    edge, above = edge[keep], above[keep]
    axis.plot(edge, above, drawstyle="steps-post", marker="o", markersize=3.5, **SEEN)
    lowest = float(above[-1]) if len(above) else 1e-2
    plots.exceedance_axis(axis, min(1e-2, lowest))
    speed = " at full speed" if found.shadow else ""
    text = f"Measured{speed}, over the whole time. Each dot is the upper edge of a bucket"
    text += " of the source's histogram; where the curve crosses a dotted line is that percentile."
    alternative = "Distribution of latency: share of requests above each latency."
    title, shares = "Latency distribution", "share that is slower"
    line = ("requests", SEEN, edge, above)
    panels = (plots.panel("latency (µs)", shares, [line], log=True),) if len(edge) else ()
    name = "latency-distribution"
    return Drawn(name, title, text, alternative, plots.svg(drawn), table, panels)


class _Time:
    """The time axis: since the daemon's start, in a unit that suits the span."""

    def __init__(self, found: Governed) -> None:
        self.series = found.series
        self.lines: list[plots.Line] = []
        self.start_s, self.end_s = found.series["start_s"], found.series["end_s"]
        self.first_s, self.last_s = float(self.start_s.min()), float(self.end_s.max())
        self.unit_s, self.unit = plots.time_unit(self.last_s - self.first_s)
        left_s = self.start_s[1:] - self.end_s[:-1]
        self.gaps = np.flatnonzero(left_s > np.maximum(_GAP_S, found.series["span_s"][:-1])) + 1

    def steps(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Ends of steps, with nothing drawn over gaps."""
        x = np.insert(self.start_s, self.gaps, self.end_s[self.gaps - 1])
        y = np.insert(values, self.gaps, np.nan)
        return np.append(x, self.end_s[-1]) / self.unit_s, np.append(y, y[-1])

    def draw(
        self, axis: Axes, column: str, label: str, style: dict[str, Any], scale: float = 1.0
    ) -> Line2D | None:
        """Draw a column where it has a value; its entry for the legend."""
        values = self.series[column]
        if not np.isfinite(values).any():
            return None
        x, y = self.steps(values * scale)
        axis.plot(x, y, drawstyle="steps-post", **style)
        self.lines.append((label, style, x, y))
        return Line2D([], [], label=label, **style)

    def panel(self, label: str) -> plots.Panel:
        """What was drawn, to be looked into."""
        return plots.panel(f"time since the start ({self.unit})", label, self.lines, stepped=True)

    def finish(self, drawn: Figure, axis: Axes, handles: list[Any], width: float = WIDTH) -> None:
        """Label the axis, and put the legend above."""
        axis.set_xlabel(f"time since the start ({self.unit})")
        axis.set_xlim(self.first_s / self.unit_s, self.last_s / self.unit_s)
        known = [handle for handle in handles if handle is not None]
        plots.legend(drawn, known, width)


def _points(found: Governed) -> str:
    if found.step == 1:
        return "Each step is a window."
    span_s = float(np.median(found.series["span_s"]))
    return f"Each step is the mean over {found.step} windows ({duration(span_s)})."


def _table(found: Governed, columns: tuple[str, ...]) -> Table:
    names = ("start_s", "end_s", *columns)
    table: Table = [list(names)]
    for values in zip(*(found.series[name].tolist() for name in names), strict=True):
        table.append(["" if np.isnan(value) else value for value in values])
    return table
