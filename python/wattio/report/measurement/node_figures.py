"""Power of each node over one iteration, its phases shaded: one strip below the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from wattio.kinds.measurement.record import Record
from wattio.kinds.measurement.schema import IDLE
from wattio.report import output, plots
from wattio.report.measurement import nodes, power
from wattio.report.measurement.bands import (
    IDLE_LOOK,
    Moment,
    broken,
    gaps_shown,
    phase_bands,
    points_text,
    shade,
    shade_phases,
)
from wattio.report.measurement.gather import Measured, WorkloadPart
from wattio.report.measurement.nodes import Node
from wattio.report.measurement.power import Seen
from wattio.report.measurement.samples import Curve, Looked, Stretch
from wattio.report.page import Block, gallery
from wattio.report.plots import Drawn, Table
from wattio.results.runs import Recorded

NODES_MAX = 16
"""Most nodes of one figure; the power of all of them is in its CSV file."""

SYSTEMS_MAX = 4
"""Most systems of a workload whose nodes are drawn; their joules are all in the tables."""

_CURVE: dict[str, Any] = {"color": "#1b1f24", "linewidth": 1.0}
_BAND: dict[str, Any] = {"color": "#1b1f24", "alpha": 0.2, "linewidth": 0}
_FEW_POINTS = 80


def of_workload(part: WorkloadPart, seen: Seen, found: Measured) -> list[Block]:
    """A figure for each system, then joules by node and phase; nothing without nodes."""
    known = nodes.of_study(found)
    items = [item for item in power.chosen(found) if item.run.subject == part.name]
    if not known or not items:
        return []
    drawn = [_of_iteration(item, known, seen, found) for item in items[:SYSTEMS_MAX]]
    prefix = f"{output.slug(part.name)}-"
    return [*gallery(drawn, prefix), *nodes.of_part(part, [item.run for item in items], found)]


def _of_iteration(
    item: Recorded, known: Sequence[Node], seen: Seen, found: Measured
) -> Drawn | None:
    """The strips of one iteration; None if no node has a sample in it."""
    place, looked = seen.iterations[item.identity]
    some = [node for node in known if _has_samples(node, place, looked)]
    if not some:
        return None
    strips = _Strips(found.records[item.identity], place, looked, some[:NODES_MAX])
    table: Table = [["node", "meter", "time_s", "power_w_min", "power_w_mean", "power_w_max"]]
    for node in some:
        table += _rows(node, place, looked, strips.at)
    image, narrow = plots.images(strips.figure)
    return Drawn(
        f"nodes-{output.slug(item.run.system)}",
        _title(item, some),
        _caption(item, len(some), points_text(looked, place)),
        "Charts of power in watts over one iteration, one for each node, phases shaded.",
        image,
        table,
        strips.panels(),
        narrow=narrow,
    )


@dataclass(frozen=True)
class _Strips:
    """One iteration of nodes, to be drawn in several widths."""

    record: Record
    place: int
    looked: Looked
    known: Sequence[Node]

    @property
    def ends_s(self) -> Stretch:
        return self.record.start.monotonic_ns / 1e9, self.record.end.monotonic_ns / 1e9

    @property
    def at(self) -> Moment:
        return Moment(self.ends_s[0], plots.time_unit(self.ends_s[1] - self.ends_s[0])[0])

    @property
    def x_label(self) -> str:
        unit = plots.time_unit(self.ends_s[1] - self.ends_s[0])[1]
        return f"time since the iteration began ({unit})"

    def figure(self, width: float) -> Figure:
        count = len(self.known)
        drawn = Figure(figsize=(width, 0.9 + 1.15 * count), layout="constrained")
        axes = drawn.subplots(count, 1, squeeze=False, sharex=True, sharey=True)[:, 0]
        handles: dict[str, Any] = {}
        for axis, node in zip(axes, self.known, strict=True):
            self._strip(axis, node)
            shade_phases(axis, self.record, self.at, named=axis is axes[0])
            for handle in gaps_shown(axis, self.looked, self.ends_s, self.at, only=node.label):
                handles.setdefault(str(handle.get_label()), handle)
        axes[-1].set_xlabel(self.x_label)
        axes[-1].set_xlim(0, self.at(self.ends_s[1]))
        _room_for_names(axes[0])
        for axis in axes:
            plots.mark_cut(axis)
        plots.legend(drawn, [*_phases(self.record), *handles.values()], width)
        return drawn

    def _strip(self, axis: Axes, node: Node) -> None:
        """The power of one node."""
        curve = self.looked.curves[node.label, self.place]
        time_s, low, mean, high = broken(curve, self.looked.gaps.get(node.label, []))
        axis.plot(self.at(time_s), mean, **_look(curve))
        if curve.binned:
            axis.fill_between(self.at(time_s), low, high, **_BAND)
        text = f"{node.name}, ESTIMATE" if node.estimate else node.name
        axis.set_title(text, fontsize=9, loc="left", fontweight="bold", pad=2)
        axis.set_ylabel("W")

    def panels(self) -> tuple[plots.Panel, ...]:
        """The curves, to be looked into."""
        found, bands = [], phase_bands(self.record, self.at)
        for node in self.known:
            curve = self.looked.curves[node.label, self.place]
            time_s, _, mean, _ = broken(curve, self.looked.gaps.get(node.label, []))
            line = (node.name, _look(curve) | {"linestyle": "-"}, self.at(time_s), mean)
            label = f"{node.name}: {self.x_label}"
            found.append(plots.panel(label, "power (W)", [line], bands=bands))
        return tuple(found)


def _look(curve: Curve) -> dict[str, Any]:
    few = len(curve.time_s) < _FEW_POINTS
    return _CURVE | ({"marker": "o", "markersize": 2.5} if few else {})


def _has_samples(node: Node, place: int, looked: Looked) -> bool:
    curve = looked.curves.get((node.label, place))
    return curve is not None and len(curve.time_s) > 0


def _room_for_names(axis: Axes) -> None:
    """Let the names of phases stand above the curves; strips share their axis."""
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.22 * (high - low))


def _phases(record: Record) -> list[Patch]:
    """Each phase once, as it is shaded."""
    looks = {
        phase.span.name: IDLE_LOOK if phase.span.name == IDLE else shade(place) | {"hatch": ""}
        for place, phase in reversed(list(enumerate(record.phases)))
    }
    return [Patch(label=name, **look) for name, look in reversed(looks.items())]


def _rows(node: Node, place: int, looked: Looked, at: Moment) -> Table:
    curve = looked.curves[node.label, place]
    columns = (at.seconds(curve.time_s), curve.low_w, curve.mean_w, curve.high_w)
    return [
        [node.name, node.label, *(float(value) for value in row)]
        for row in zip(*columns, strict=True)
    ]


def _title(item: Recorded, some: Sequence[Node]) -> str:
    text = f"Power of each node: {item.run.name}"
    return f"{text}, ESTIMATE" if all(node.estimate for node in some) else text


def _caption(item: Recorded, count: int, points: str) -> str:
    text = f"Repetition {item.repetition + 1}, usable. All strips have the same scale."
    if count > NODES_MAX:
        text += f" The first {NODES_MAX} of {count} nodes; the others are in the CSV file."
    return f"{text} {points}"
