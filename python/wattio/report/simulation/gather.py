"""What a report shows, read from a result folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattio.analysis.histogram import Counts, Edges, merge
from wattio.errors import ResultError
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.overall import sound
from wattio.report.plots import POINTS
from wattio.report.rankings import Condition, Contest
from wattio.results.runs import Recorded
from wattio.results.samples import Windows
from wattio.results.summary import Row, rows
from wattio.simulator.policies import BOUND_BY, REFERENCE


@dataclass(frozen=True)
class Curve:
    """One policy on one load: its row, its first seed over time, its latencies over all seeds.

    `powers_w` is the mean power of each iteration, by seed and repetition; `doubts` are the
    codes of its WARN verdicts.
    """

    row: Row
    series: Windows
    point_s: float
    states: NDArray[np.float64]
    states_start_s: NDArray[np.float64]
    edge: Edges
    count: Counts
    powers_w: dict[tuple[int, int], float]
    doubts: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """How the policy is called."""
        return self.row.run.condition


@dataclass(frozen=True)
class LoadPart:
    """All that a report says about one load."""

    name: str
    server: str
    facts: dict[str, Any]
    curves: list[Curve]
    sweep: list[Row]

    @property
    def contest(self) -> Contest | None:
        """Mean power for the same work, native first; None without native, or anything beside it.

        Of seeds that all have, so that values of a place belong together.
        """
        common = set.intersection(*(set(curve.powers_w) for curve in self.curves))
        if self.native is None or len(self.curves) < 2 or not common:
            return None
        conditions = [
            Condition(
                curve.label,
                tuple(curve.powers_w[key] for key in sorted(common)),
                sound(curve.row),
                curve.row.run.policy != BOUND_BY,
            )
            for curve in sorted(self.curves, key=lambda curve: curve is not self.native)
        ]
        return Contest(self.name, "power", tuple(conditions), paired=True, of="seeds")

    @property
    def subject(self) -> Curve | None:
        """The policy that the report is about: the best but native of those that may win.

        The one that saves most where none may, or nothing is compared.
        """
        tried = [c for c in self.curves if c.row.run.policy not in (REFERENCE, BOUND_BY)]
        ranked = [one.name for one in self.contest.ranked()] if self.contest else []
        able = [curve for name in ranked for curve in tried if curve.label == name]
        most = max(tried, key=lambda c: c.row.mean("saving_share") or 0.0, default=None)
        return able[0] if able else most

    def saving(self, curve: Curve) -> float | None:
        """The share of native's power that a policy saves, as what won tells it."""
        found = {one.name: float(np.mean(one.values)) for one in self._competing}
        if self.native is None or curve.label not in found:
            return curve.row.mean("saving_share")
        return 1 - found[curve.label] / found[self.native.label]

    @property
    def _competing(self) -> Sequence[Condition]:
        return self.contest.conditions if self.contest else ()

    @property
    def rows(self) -> list[Row]:
        """Every row: of policies, then of a sweep."""
        return [curve.row for curve in self.curves] + self.sweep

    @property
    def has_oracle(self) -> bool:
        """Whether the oracle is among the policies."""
        return any(curve.row.run.policy == BOUND_BY for curve in self.curves)

    @property
    def native(self) -> Curve | None:
        """The reference."""
        return next((c for c in self.curves if c.row.run.policy == REFERENCE), None)


@dataclass(frozen=True)
class Result:
    """A whole result folder, as a report needs it."""

    folder: SimulationFolder
    resolved: dict[str, Any]
    inputs: dict[str, Any]
    machine: dict[str, Any]
    iterations: list[Recorded]
    loads: list[LoadPart]
    complete: bool


def gather(path: Path) -> Result:
    """Read a result folder. Raises ResultError where it holds nothing to report."""
    folder = SimulationFolder(path)
    iterations = folder.iterations()
    if not iterations:
        raise ResultError(f"{path}: holds no iteration that has ended; nothing to report")
    inputs = folder.inputs()
    summary = rows(iterations)
    loads = []
    for name in dict.fromkeys(row.run.subject for row in summary):
        own = [row for row in summary if row.run.subject == name]
        curves = [_curve(folder, row, iterations) for row in own if row.run.sweep_of is None]
        facts = inputs["loads"][name]
        loads.append(LoadPart(name, own[0].run.system, facts, curves, _sweep(own)))
    return Result(
        folder,
        folder.resolved(),
        inputs,
        folder.machine(),
        iterations,
        loads,
        folder.complete(),
    )


def _sweep(own: list[Row]) -> list[Row]:
    """The points of a load's sweep, with the policy that is itself one of them, by value."""
    points = [row for row in own if row.run.sweep_of is not None]
    if not points:
        return []
    setting, base = points[0].run.sweep_setting, points[0].run.sweep_of
    points = [row for row in points if (row.run.sweep_setting, row.run.sweep_of) == (setting, base)]
    points += [row for row in own if row.run.condition == base and setting in row.run.settings]
    values = [row.run.settings[str(setting)] for row in points]
    if all(isinstance(value, int | float) for value in values):
        points.sort(key=lambda row: float(row.run.settings[str(setting)]))
    return points


def _curve(folder: SimulationFolder, row: Row, iterations: list[Recorded]) -> Curve:
    own = [item for item in iterations if item.run.name == row.run.name]
    own = [item for item in own if item.usable] or own
    outcomes = (folder.read_outcome(item) for item in own)
    first = next(outcomes)
    edge, count = first.latency_histogram
    for other in outcomes:
        edge, count = merge([(edge, count), other.latency_histogram])
    series, point_s = binned(first.windows)
    windows = first.windows
    powers_w = {(item.seed, item.repetition): item.metrics["power_w_mean"][0] for item in own}
    states = windows["state"], windows["start_s"]
    doubts = tuple(dict.fromkeys(code for item in own for code in item.codes("WARN")))
    return Curve(row, series, point_s, *states, edge, count, powers_w, doubts)


def binned(windows: Windows) -> tuple[Windows, float]:
    """Windows averaged into at most POINTS points, and the span of a point in seconds.

    Power is energy over span, latency is weighted by I/Os; a point without I/Os has no latency.
    """
    count = len(windows["span_s"])
    step = max(1, -(-count // POINTS))
    starts = np.arange(0, count, step)

    def total(column: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.add.reduceat(np.nan_to_num(column), starts)

    span_s, ios = total(windows["span_s"]), total(windows["ios"])
    with np.errstate(invalid="ignore", divide="ignore"):
        latency = total(windows["ios"] * np.nan_to_num(windows["latency_us_mean"])) / ios
    series = {
        "start_s": windows["start_s"][starts],
        "span_s": span_s,
        "iops": ios / span_s,
        "power_w": total(windows["energy_j"]) / span_s,
        "latency_us_mean": np.where(ios > 0, latency, np.nan),
    }
    for name in ("cores_active_mean", "frequency_hz_mean"):
        series[name] = total(windows[name] * windows["span_s"]) / span_s
    return series, float(np.max(span_s))
