"""What the power samples of a measurement show: their spread in phases, and their course."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from wattio.kinds.measurement.record import Record
from wattio.report import plots
from wattio.report.measurement import samples
from wattio.report.measurement.figures import called, grid, labelled, titled
from wattio.report.measurement.gather import Measured, PhasePart, WorkloadPart
from wattio.report.measurement.samples import Asked, Looked, Series, Stretch
from wattio.report.phrases import number
from wattio.report.plots import Drawn, Table
from wattio.results.runs import Recorded
from wattio.results.summary import Row

SHOWN_MAX = 4
"""Most iterations of a kind whose power is shown closely."""

SESSIONS_MAX = 6
"""Most sessions whose power is shown over all of their time."""

_PERCENT = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass
class Seen:
    """Samples of all sessions: within phases by run and phase, and curves by what they show."""

    values_w: dict[tuple[str, str], list[Series]] = field(default_factory=dict)
    sessions: list[tuple[str, Stretch, Looked]] = field(default_factory=list)
    iterations: dict[str, tuple[int, Looked]] = field(default_factory=dict)


def see(found: Measured) -> Seen:
    """Look at the samples of every session, once. Raises ResultError."""
    seen = Seen()
    closely = [*chosen(found), *invalid(found)]
    for session in sorted({record.session for record in found.records.values()}):
        own = {key: rec for key, rec in found.records.items() if rec.session == session}
        ends = [end for record in own.values() for end in _bounds(record)]
        whole = (min(ends), max(ends))
        here = [item.identity for item in closely if item.identity in own]
        stretches = [whole, *(_bounds(own[identity]) for identity in here)]
        asked = _asked(found, own)
        looked = samples.look(found.folder, session, asked, stretches, _spans(found, own))
        seen.sessions.append((session, whole, looked))
        for place, identity in enumerate(here, start=1):
            seen.iterations[identity] = (place, looked)
        for key, parts in looked.values_w.items():
            run, _, phase = key.partition("\n")
            seen.values_w.setdefault((run, phase), []).extend(parts)
    return seen


def chosen(found: Measured) -> list[Recorded]:
    """The iterations that are shown closely: one of each workload and system.

    It is the first usable one of the last setting in the study's order, such as the most clients.
    """
    usable: dict[str, Recorded] = {}
    for item in found.last:
        if item.usable:
            usable.setdefault(item.run.name, item)
    shown: dict[tuple[str, str], Recorded] = {}
    for part in found.workloads:
        for row in (row for phase in part.phases[:1] for row in phase.rows):
            if row.run.name in usable:
                shown[part.name, row.run.system] = usable[row.run.name]
    return list(shown.values())


def invalid(found: Measured) -> list[Recorded]:
    """INVALID iterations that are shown closely; of those without a record there is no curve."""
    bad = [item for item in found.iterations if not item.usable]
    return [item for item in bad if item.identity in found.records][:SHOWN_MAX]


def _asked(found: Measured, records: dict[str, Record]) -> list[Asked]:
    """The study's meters that were recorded in a session."""
    facts = {**next(iter(records.values())).meters, **found.folder.attached()}
    asked = []
    for entry in found.study.meter:
        if entry.shown not in facts:
            continue
        own = facts[entry.shown]
        lag_s = own.lag_s if entry.lag is None else entry.lag
        gap_s = found.study.rules.gap_intervals * (entry.period or own.period_s)
        asked.append(Asked(entry.shown, lag_s, gap_s, entry.role == "total"))
    return asked


def _spans(found: Measured, records: dict[str, Record]) -> list[tuple[str, Stretch]]:
    """Phases of iterations that may be averaged, by run and phase."""
    spans = []
    for item in found.last:
        record = records.get(item.identity)
        if record is not None and item.usable:
            for phase in record.phases:
                ends = phase.span.start.monotonic_ns / 1e9, phase.span.end.monotonic_ns / 1e9
                spans.append((f"{item.run.name}\n{phase.span.name}", ends))
    return spans


def _bounds(record: Record) -> Stretch:
    return record.start.monotonic_ns / 1e9, record.end.monotonic_ns / 1e9


def boxes(part: WorkloadPart, seen: Seen, found: Measured) -> Drawn | None:
    """Box plots of the samples in each phase; None if no phase has any."""
    phases = [
        phase
        for phase in part.phases
        if any((row.run.name, phase.name) in seen.values_w for row in phase.used())
    ]
    if not phases:
        return None
    table: Table = [["phase", "run", "samples", "min", "p25", "p50", "p75", "max", "mean"]]
    for phase in phases:
        for _, row, values_w in _boxed(phase, seen):
            table.append([phase.name, row.run.name, values_w.size, *_spread_w(values_w)])

    def draw(width: float) -> Figure:
        drawn, axes = grid(len(phases), 2.5, width)
        for axis, phase in zip(axes, phases, strict=True):
            _boxes(axis, phase, seen)
            titled(axis, part, phase.name)
            axis.set_ylabel(labelled("power (W)", found))
            plots.mark_cut(axis)
        _legend(drawn, phases[0], width)
        return drawn

    image, narrow = plots.images(draw)
    text = "All samples of the totals in usable iterations of a phase: the box holds the middle"
    text += " half, the line in it is the median, the diamond the mean; whiskers reach to the least"
    text += " and the most sample. The axis does not begin at zero."
    missing = sum(
        (row.run.name, phase.name) not in seen.values_w
        for phase in part.phases
        for row in phase.used()
    )
    if missing:
        text += f" {missing} of the rows have phases too short to hold a sample, and no box."
    alternative = "Box plots of power samples in watts, phase by phase."
    title = called("Power in each phase", found)
    return Drawn("power", title, text, alternative, image, table, narrow=narrow)


def _boxed(phase: PhasePart, seen: Seen) -> Iterator[tuple[tuple[int, int], Row, Series]]:
    """Rows with samples: the numbers of their line and their place in it, and the samples."""
    for at, line in enumerate(phase.lines):
        for place, row in enumerate(line.rows):
            parts = None if row is None else seen.values_w.get((row.run.name, phase.name))
            if row is not None and parts:
                yield (at, place), row, np.concatenate(parts)


def _spread_w(values_w: Series) -> list[float]:
    """Least, quartiles and most, and the mean."""
    spread = [float(value) for value in np.quantile(values_w, _PERCENT)]
    return [*spread, float(np.mean(values_w, dtype=np.float64))]


def _boxes(axis: Axes, phase: PhasePart, seen: Seen) -> None:
    lines = phase.lines
    width = 0.7 / max(len(lines), 1 if lines and lines[0].label else 2)
    for (at, place), _, values_w in _boxed(phase, seen):
        names = ("whislo", "q1", "med", "q3", "whishi", "mean")
        dark = {"color": "#222222", "linewidth": 0.8}
        axis.bxp(
            [dict(zip(names, _spread_w(values_w), strict=True))],
            positions=[place + (at - (len(lines) - 1) / 2) * width],
            widths=0.8 * width,
            showmeans=True,
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            boxprops={"edgecolor": "#222222", "linewidth": 0.8} | plots.bar(at),
            medianprops={"color": "#000000", "linewidth": 1.8},
            meanprops={
                "marker": "D",
                "markerfacecolor": "white",
                "markeredgecolor": "#000000",
                "markersize": 4,
            },
            whiskerprops=dark,
            capprops=dark,
        )


def _legend(drawn: Figure, phase: PhasePart, width: float) -> None:
    handles = [
        Patch(label=line.label, edgecolor="#222222", **plots.bar(at))
        for at, line in enumerate(phase.lines)
        if line.label
    ]
    plots.legend(drawn, handles, width)


def span_text(seconds: float) -> str:
    """A duration with its unit."""
    unit_s, unit = plots.time_unit(seconds)
    return f"{number(seconds / unit_s)} {unit}"
