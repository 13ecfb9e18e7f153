"""Energy over the processor's frequency: what a study found that sets it, device by device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wattio.analysis.ranged import Ranged
from wattio.kinds.measurement.frequencies import CAP, OFF_MAX, PINNED, asked_hz
from wattio.report.measurement.gather import Measured, PhasePart, WorkloadPart
from wattio.report.measurement.phrases import has_samples
from wattio.report.rankings import Condition, Contest
from wattio.results.summary import Row, equal_work

KNOBS = {PINNED: "pinned to", CAP: "at most"}
"""Conditions that are frequencies, and how a core stands to them."""

ENERGY, EACH, TIME = "energy", "energy for the work", "time"
QUANTITIES = (ENERGY, EACH, TIME)
"""What is shown over frequency."""

GIB_MIB = 1024
THOUSAND = 1000
RAN = "cpu_frequency_hz_mean"


@dataclass(frozen=True)
class Point:
    """A series at one frequency, asked for in hertz: values of each repetition by quantity.

    Where it is `capped`, cores may run slower, too. `ranged` is what estimated ones may be.
    """

    asked_hz: float
    capped: bool
    row: Row
    values: dict[str, tuple[float, ...]]
    ranged: dict[str, Ranged | None]

    @property
    def name(self) -> str:
        """The frequency, as it is told."""
        return f"{self.asked_hz / 1e9:g} GHz"

    @property
    def ran_hz(self) -> float | None:
        """What the cores ran at in the mean; None if nobody looked."""
        return self.row.mean(RAN)

    @property
    def off(self) -> bool:
        """Whether the cores ran at another frequency than was asked for."""
        if self.ran_hz is None:
            return False
        off = self.ran_hz / self.asked_hz - 1
        return off > OFF_MAX or (off < -OFF_MAX and not self.capped)


@dataclass(frozen=True)
class Track:
    """A device, and what else is the same at all of its points, which rise in frequency."""

    label: str
    points: tuple[Point, ...]

    def contest(self, name: str, quantity: str, said: str) -> Contest | None:
        """Its frequencies against each other, the highest as reference; None for fewer than two.

        Energy and time are compared for equal work only.
        """
        some = [point for point in reversed(self.points) if point.values.get(quantity)]
        if quantity != EACH and not equal_work([point.row for point in some]):
            return None
        if len(some) < 2 or not all(min(point.values[quantity]) > 0 for point in some):
            return None
        conditions = tuple(
            Condition(point.name, point.values[quantity], ranged=point.ranged.get(quantity))
            for point in some
        )
        return Contest(name, said, conditions)


@dataclass(frozen=True)
class Course:
    """A phase of a workload over frequency; `each` is what its energy is divided by."""

    part: str
    phase: str
    knob: str
    each: str
    tracks: tuple[Track, ...]

    def best(self, track: Track, quantity: str) -> list[str]:
        """Names of the frequencies that lead, the best first; none where noise is not known.

        Nor where an estimate cannot tell the best from all others.
        """
        contest = track.contest("", quantity, quantity)
        if contest is None or not contest.is_ranked:
            return []
        return [one.name for one in contest.leaders()]

    def untold(self, track: Track, quantity: str) -> list[str]:
        """Names of the frequencies that an estimate cannot tell apart, any of which may be best."""
        contest = track.contest("", quantity, quantity)
        if contest is None or contest.is_ranked:
            return []
        return [contest.ranked()[0].name, *(one.name for one, _ in contest.untold())]


def courses(part: WorkloadPart, found: Measured) -> Iterator[Course]:
    """The phases of a workload that ran at two frequencies or more."""
    for phase in part.phases:
        for knob in KNOBS:
            rows = [row for row in phase.used() if knob in row.run.settings]
            if len({str(row.run.settings[knob]) for row in rows}) > 1:
                yield _course(part, phase, knob, rows, found)


def _course(
    part: WorkloadPart, phase: PhasePart, knob: str, rows: list[Row], found: Measured
) -> Course:
    moves = all(row.get("mib_per_joule") for row in rows)
    name, size = ("mib_per_joule", GIB_MIB) if moves else ("iops_per_watt", THOUSAND)
    tracks: dict[str, list[Point]] = {}
    for row in rows:
        hz = asked_hz(str(row.run.settings[knob]))
        label = phase.names.of(row.run, without=knob)
        ranged = {ENERGY: _ranged(row, "energy_j"), EACH: _ranged(row, name, over=size)}
        point = Point(hz, knob == CAP, row, _values(row, name, size, found), ranged)
        tracks.setdefault(label, []).append(point)
    ordered = [
        Track(label, tuple(sorted(points, key=lambda point: point.asked_hz)))
        for label, points in tracks.items()
    ]
    each = "GiB" if moves else "1000 operations"
    return Course(part.name, phase.name, knob, each, tuple(ordered))


def _values(row: Row, name: str, size: int, found: Measured) -> dict[str, tuple[float, ...]]:
    """Values of each repetition; energies only where a sample saw the phase."""
    values: dict[str, tuple[float, ...]] = {}
    if (seconds := row.get("seconds")) is not None:
        values[TIME] = seconds.values
    if not has_samples(row, found):
        return values
    if (joules := row.get("energy_j")) is not None:
        values[ENERGY] = joules.values
    efficiency = row.get(name)
    if efficiency is not None and min(efficiency.values) > 0:
        values[EACH] = tuple(size / value for value in efficiency.values)
    return values


def _ranged(row: Row, name: str, over: float | None = None) -> Ranged | None:
    """What a metric may be where it rests on a model, or so much over it."""
    value = row.get(name)
    if value is None or value.ranged is None or over is None:
        return None if value is None else value.ranged
    corners = tuple(tuple(over / one for one in corner) for corner in value.ranged.corners)
    return Ranged(value.ranged.model, corners)
