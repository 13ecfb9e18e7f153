"""What the report of a measurement shows, read from its result folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wattio.errors import ResultError
from wattio.kinds.measurement import rederive
from wattio.kinds.measurement.derive import Rulebook
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.record import Record
from wattio.kinds.measurement.schema import IDLE, MeasurementStudy, MeterEntry
from wattio.kinds.measurement.summary import normalised_edp
from wattio.results.runs import Recorded, Run
from wattio.results.summary import Row, last_attempts, rows

CLIENTS = "clients"

LARGE_BYTES = 64 * 1024
"""From this mean size of an operation on, its rate is told as throughput, below as operations."""


@dataclass(frozen=True)
class Line:
    """A curve, or a row of bars: its name, and its row at each place of the x axis."""

    label: str
    rows: tuple[Row | None, ...]


@dataclass(frozen=True)
class Comparison:
    """Rows whose energy-delay products are compared, and the products by weight, then run."""

    rows: tuple[Row, ...]
    products: dict[int, dict[str, float]]
    net: dict[int, dict[str, float]]


@dataclass(frozen=True)
class Naming:
    """How runs of a workload are told apart: by system, where there are several, and settings."""

    systems: int
    varied: tuple[str, ...]

    def of(self, run: Run, without: str = "") -> str:
        """What is different about a run, in short."""
        parts = [run.system] if self.systems > 1 or not self.varied else []
        parts += [_setting(run, name) for name in self.varied if name != without]
        return ", ".join(parts) or run.system


@dataclass(frozen=True)
class PhasePart:
    """One phase of a workload on everything that it was measured on."""

    name: str
    rows: tuple[Row, ...]
    lines: tuple[Line, ...]
    comparisons: tuple[Comparison, ...]
    names: Naming

    @property
    def rate(self) -> str | None:
        """The metric of its rate: throughput for large operations, else operations a second.

        Files a second where work is known by files alone.
        """
        for row in self.rows:
            moved, done = row.get("bytes"), row.get("operations")
            if row.get("throughput_mib_s") is not None and (
                row.get("iops") is None
                or moved is None
                or done is None
                or moved.mean >= LARGE_BYTES * done.mean
            ):
                return "throughput_mib_s"
            for name in ("iops", "files_per_s"):
                if row.get(name) is not None:
                    return name
        return None

    @property
    def efficiency(self) -> str:
        """The metric of its rate for each watt."""
        named = {"iops": "iops_per_watt", "files_per_s": "files_per_joule"}
        return named.get(self.rate or "", "mib_per_joule")

    def used(self) -> list[Row]:
        """Rows with an iteration that may be used."""
        return [row for row in self.rows if row.used]


@dataclass(frozen=True)
class WorkloadPart:
    """A workload: its phases, and what stands on the x axis of its figures."""

    name: str
    x_name: str | None
    x_labels: tuple[str, ...]
    phases: tuple[PhasePart, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Measured:
    """A result folder as the report takes it; `records` has those that can be read."""

    folder: MeasurementFolder
    study: MeasurementStudy
    machine: dict[str, Any]
    peak_text: str | None
    book: Rulebook
    iterations: list[Recorded]
    records: dict[str, Record]
    workloads: list[WorkloadPart]
    idle: list[Row]

    @property
    def last(self) -> list[Recorded]:
        """Of several attempts at one repetition, the last one."""
        return last_attempts(self.iterations)

    @property
    def complete(self) -> bool:
        """Whether every iteration of the plan is done."""
        return {item.identity for item in self.iterations} >= set(self.machine["plan"])

    def is_estimate(self, meter: MeterEntry) -> bool:
        """Whether a meter measures nothing."""
        facts = self.folder.facts(self.records.values()).get(meter.shown)
        return facts.estimate if facts else meter.name.startswith("estimate:")

    @property
    def estimated(self) -> bool:
        """Whether the totals rest on an estimate, in whole or in part."""
        return any(self.is_estimate(meter) for meter in self.totals)

    @property
    def totals(self) -> list[MeterEntry]:
        """The meters whose sum is the energy of a phase."""
        return [meter for meter in self.study.meter if meter.role == "total"]


def gather(path: Path) -> Measured:
    """Read a result folder. Raises ResultError."""
    folder = MeasurementFolder(path)
    book = Rulebook.of_folder(folder)
    iterations, records = _read(folder)
    systems = [entry.name for entry in book.study.system]
    for item in iterations:
        if item.run.system not in systems:
            raise ResultError(
                f"{path / 'catalog.sqlite'}: table runs: {item.run.name} is of the system"
                f' "{item.run.system}"; those of the study are {", ".join(systems)}'
            )
    order = _Order(book.study, iterations, records)
    found = order.sorted(rows(iterations))
    idle = [row for row in found if row.run.subject == IDLE]
    workloads = [
        part
        for entry in book.study.workload
        if (part := _workload(entry.name, found, order, book.study)) is not None
    ]
    head = (folder, book.study, folder.machine(), folder.inputs().get("peak"), book)
    return Measured(*head, iterations, records, workloads, idle)


def _read(folder: MeasurementFolder) -> tuple[list[Recorded], dict[str, Record]]:
    """Every iteration, and records by identity; one without is INVALID, whatever it was before."""
    iterations: list[Recorded] = []
    records: dict[str, Record] = {}
    for item in folder.iterations():
        try:
            records[item.identity] = folder.record(item.identity)
            iterations.append(item)
        except ResultError as error:
            verdict = rederive.unreadable(folder, item, error)
            iterations.append(replace(item, verdicts=(verdict,), by_phase={}))
    return iterations, records


class _Order:
    """The order of the study file: systems, clients, values of knobs; phases as they ran."""

    def __init__(
        self, study: MeasurementStudy, iterations: Sequence[Recorded], records: dict[str, Record]
    ) -> None:
        self.systems = [entry.name for entry in study.system]
        self.knobs = {knob.name: [str(value) for value in knob.values] for knob in study.knob}
        ran: dict[tuple[str, str], int] = {}
        for item in iterations:
            record = records.get(item.identity)
            for phase in record.phases if record else ():
                ran.setdefault((item.run.subject, phase.span.name), len(ran))
        self._ran = ran

    def sorted(self, found: Sequence[Row]) -> list[Row]:
        return sorted(found, key=self._key)

    def _key(self, row: Row) -> tuple[Any, ...]:
        values = [self.place(name, row.run.settings.get(name)) for name in (CLIENTS, *self.knobs)]
        phase = self._ran.get((row.run.subject, row.phase), len(self._ran))
        label = 0 if row.run.condition.endswith("before") else 1
        return phase, self.systems.index(row.run.system), values, label

    def place(self, name: str, value: object) -> float:
        """Where a value of a setting stands among the others."""
        if name == CLIENTS:
            return float(str(value or 0))
        known = self.knobs.get(name, [])
        return known.index(str(value)) if str(value) in known else -1


def _workload(
    name: str, found: Sequence[Row], order: _Order, study: MeasurementStudy
) -> WorkloadPart | None:
    own = [row for row in found if row.run.subject == name]
    if not own:
        return None
    runs = list({row.run.name: row.run for row in own}.values())
    varied = [
        key
        for key in (CLIENTS, *order.knobs)
        if len({str(run.settings.get(key)) for run in runs}) > 1
    ]
    x_name = varied[0] if varied else None
    if x_name is None:
        x_labels = [system for system in order.systems if system in {run.system for run in runs}]
    else:
        values = {str(run.settings.get(x_name)) for run in runs}
        x_labels = sorted(values, key=lambda value: order.place(x_name, value))
    phases = []
    names = Naming(len({run.system for run in runs}), tuple(varied))
    for phase in dict.fromkeys(row.phase for row in own if row.phase):
        rows_ = tuple(row for row in own if row.phase == phase)
        lines = _lines(rows_, x_name, x_labels, varied[1:])
        weights = study.study.edp_weights
        phases.append(PhasePart(phase, rows_, lines, tuple(_comparisons(rows_, weights)), names))
    return WorkloadPart(name, x_name, tuple(x_labels), tuple(phases), tuple(own))


def _lines(
    own: Sequence[Row], x_name: str | None, x_labels: Sequence[str], others: Sequence[str]
) -> tuple[Line, ...]:
    """Rows by series: the system, and settings that vary beside the x axis."""
    if x_name is None:
        by_system: dict[str, Row] = {row.run.system: row for row in own}
        return (Line("", tuple(by_system.get(label) for label in x_labels)),)
    series: dict[str, dict[str, Row]] = {}
    for row in own:
        label = ", ".join([row.run.system, *(_setting(row.run, name) for name in others)])
        series.setdefault(label, {})[str(row.run.settings.get(x_name))] = row
    return tuple(
        Line(label, tuple(places.get(at) for at in x_labels)) for label, places in series.items()
    )


def _setting(run: Run, name: str) -> str:
    """A setting of a run in words."""
    value = run.settings.get(name)
    if name == CLIENTS:
        return f"{value} client{'' if value == 1 else 's'}"
    return f"{name} {value}"


def _comparisons(own: Sequence[Row], weights: Sequence[int]) -> list[Comparison]:
    """Over all rows where they did equal work; else over those of equally many clients."""
    used = [row for row in own if row.used]
    whole = _comparison(used, weights)
    if whole is not None:
        return [whole]
    groups: dict[str, list[Row]] = {}
    for row in used:
        groups.setdefault(str(row.run.settings.get(CLIENTS)), []).append(row)
    parts = [_comparison(group, weights) for group in groups.values()]
    return [part for part in parts if part is not None]


def _comparison(among: Sequence[Row], weights: Sequence[int]) -> Comparison | None:
    if len(among) < 2:
        return None
    products = {weight: normalised_edp(among, weight) for weight in weights}
    if not all(products.values()):
        return None
    net = {weight: normalised_edp(among, weight, net=True) for weight in weights}
    return Comparison(tuple(among), products, net)
