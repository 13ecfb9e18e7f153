"""Figure 16: p99 latency second by second through a burst, and how soon PACER is at full speed.

The reaction is read from the active cores: by how much time at full speed the windows after the
burst's beginning fall short of it, as if the step had been one. It is exact to far less than a
window where all cores come back at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from wattio.analysis.histogram import WindowHistograms, percentile
from wattio.analysis.statistics import Interval
from wattio.report import plots
from wattio.report.plots import WIDTH, Drawn, Table
from wattio.simulator.policies import REFERENCE
from wattio.simulator.simulation import Outcome

from validation.pacer.data import PACER, Evaluation, interval

LOAD = "burst"
TITLE = "p99 latency through a burst"
STYLES: tuple[tuple[str, str, str, Any], ...] = (
    (REFERENCE, "#000000", "o", "--"),
    (PACER, "#0072B2", "s", "-"),
)
_SECOND_S = 1.0

Seconds = tuple[NDArray[np.float64], NDArray[np.float64]]


def begins_s(study: Evaluation) -> float | None:
    """When the burst begins, in seconds after the warm-up; None without the load."""
    if LOAD not in study.inputs["loads"]:
        return None
    return float(study.inputs["loads"][LOAD]["request"]["phases"][0]["span_s"])


def p99_by_second_us(outcome: Outcome) -> Seconds:
    """End of each second and the 99th percentile within it, in microseconds; NaN without I/Os."""
    second = np.floor(outcome.windows["start_s"] / _SECOND_S + 1e-9).astype(int)
    numbers, starts = np.unique(second, return_index=True)
    edge, counts = WindowHistograms(*outcome.window_histograms).matrix(starts)
    found = [percentile(edge, row, 0.99) for row in counts]
    values = [np.nan if value is None else value for value in found]
    return (numbers + 1) * _SECOND_S, np.array(values)


def reaction_ms(outcome: Outcome, begin_s: float) -> float | None:
    """From the burst's beginning to full speed, in milliseconds; None where it never got there."""
    windows = outcome.windows
    after = windows["start_s"] >= begin_s - 1e-9
    before = ~after
    missing_ms = 0.0
    for name in ("cores_active_mean", "frequency_hz_mean"):
        column = windows[name]
        if not after.any() or not before.any():
            return None
        low, full = column[before][-1], column.max()
        if low >= full * (1 - 1e-9):
            continue
        reached = np.flatnonzero(column[after] >= full * (1 - 1e-6))
        if not reached.size:
            return None
        own = slice(0, int(reached[0]) + 1)
        short = (full - column[after][own]) / (full - low) * windows["span_s"][after][own]
        missing_ms = max(missing_ms, 1e3 * float(short.sum()))
    return missing_ms


def reactions_ms(study: Evaluation) -> Interval | None:
    """The reaction over the seeds; None where the burst was not run."""
    begin_s = begins_s(study)
    if begin_s is None:
        return None
    found = [reaction_ms(outcome, begin_s) for outcome in study.outcomes(LOAD, PACER)]
    return interval([value for value in found if value is not None])


def draw(study: Evaluation) -> Drawn | None:
    """Figure 16; None where the burst was not run."""
    begin_s = begins_s(study)
    curves = {label: study.outcomes(LOAD, label) for label, *_ in STYLES}
    if begin_s is None or not all(curves.values()):
        return None
    rows: Table = [["policy", "seed", "second_ends_s", "latency_us_p99"]]
    means: dict[str, NDArray[np.float64]] = {}
    with plots.styled():
        figure, (axis,) = plots.figure(WIDTH, 3.6)
        for label, colour, marker, dashes in STYLES:
            drawn = [p99_by_second_us(outcome) for outcome in curves[label]]
            for outcome, (ends, values) in zip(curves[label], drawn, strict=True):
                rows += [
                    [label, outcome.request.seed, *pair]
                    for pair in zip(ends.tolist(), values.tolist(), strict=True)
                ]
            stack = np.stack([values for _, values in drawn])
            means[label], ends = stack.mean(axis=0), drawn[0][0]
            reach = np.stack([means[label] - stack.min(axis=0), stack.max(axis=0) - means[label]])
            axis.errorbar(
                ends,
                means[label] / 1e3,
                np.maximum(reach, 0) / 1e3,
                color=colour,
                marker=marker,
                linestyle=dashes,
                markersize=4,
                capsize=2,
                linewidth=1.4,
            )
        reaction = reactions_ms(study)
        full_s = None if reaction is None else begin_s + reaction.estimate / 1e3
        axis.axvline(begin_s, color="#D55E00", linestyle=":", linewidth=1.4)
        if full_s is not None:
            axis.axvline(full_s, color="#009E73", linestyle="-.", linewidth=1.4)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("simulated time (s), at the end of each second")
        axis.set_ylabel("p99 latency (ms)")
        figure.legend(handles=_handles(reaction), loc="outside upper left", ncols=2, handlelength=3)
        image = plots.svg(figure)
    caption = _caption(study, means, reaction, begin_s)
    alternative = "p99 latency by second of native and PACER; both rise when the burst begins."
    title = f"Figure 16: {TITLE}"
    return Drawn("published-figure-16", title, caption, alternative, image, rows)


def _handles(reaction: Interval | None) -> list[Line2D]:
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle=dashes, label=label)
        for label, colour, marker, dashes in STYLES
    ]
    handles.append(Line2D([], [], color="#D55E00", linestyle=":", label="the burst begins"))
    if reaction is not None:
        label = f"PACER at full speed, {reaction.estimate:.0f} ms later"
        handles.append(Line2D([], [], color="#009E73", linestyle="-.", label=label))
    return handles


def _caption(
    study: Evaluation,
    means: dict[str, NDArray[np.float64]],
    reaction: Interval | None,
    begin_s: float,
) -> str:
    text = "Stands for figure 16 of the document: Rand_RW at 3 % of 8 KiB, then full pressure of"
    text += " 32 KiB by the same clients. Its curves are only drawn; its text says that both reach"
    text += " comparable p99 latencies."
    peaks = [f"{label} {values.max() / 1e3:.1f} ms" for label, values in means.items()]
    steady = [f"{label} {values[-1] / 1e3:.1f} ms" for label, values in means.items()]
    text += f" Ours peak at {' and '.join(peaks)} and settle at {' and '.join(steady)}."
    if reaction is None:
        return text + " PACER did not return to full speed."
    text += f" PACER is back at full speed {reaction.estimate:.0f} ms after the burst began"
    text += f" ({reaction.low:.0f} to {reaction.high:.0f} ms over the seeds)."
    window_s = study.policy_setting(PACER, "window")
    if window_s is not None and abs(reaction.estimate - 1e3 * window_s) < 1:
        text += " The burst begins just as a window of the law does, so this is the longest that a"
        text += " check at the end of each window takes."
    sustained = study.ratio(LOAD, PACER, "iops_mean")
    if sustained is not None:
        text += f" It serves {100 * sustained.estimate:.1f} % of native's I/Os over the run."
    return text + " Error bars span all seeds."
