"""Deriving what the catalog holds of an iteration from what is kept of it: raw files and samples.

The same code runs when an iteration ends, when a session ends (a meter that froze shows only
later), and when everything is derived again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from wattio.analysis import efficiency
from wattio.analysis.peak import Peak
from wattio.clock import Span
from wattio.errors import ResultError
from wattio.files import document
from wattio.files.document import Document
from wattio.kinds.measurement import core_time, frequencies, metrics, system_status, verdicts
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.record import Record
from wattio.kinds.measurement.schema import IDLE, MeasurementStudy, MeterEntry, from_document
from wattio.kinds.measurement.system_status import Answer
from wattio.kinds.measurement.verdicts import WITNESS, Watched
from wattio.meters.meter import Facts
from wattio.peak import file as peak_file
from wattio.recording import Event, Samples
from wattio.results.runs import Metrics, Phase, Verdict
from wattio.workloads import KINDS
from wattio.workloads.workload import Operation

WITNESS_NAME = "estimate:assumed"
"""The meter that is recorded as the witness; it enters no metric."""

WITNESS_ENTRY = MeterEntry(name=WITNESS_NAME, label=WITNESS, covers=["host"], role="beside")


@dataclass(frozen=True)
class Rulebook:
    """What decides metrics and verdicts beside the data: the study as run, and its peak."""

    study: MeasurementStudy
    peak: Peak | None

    @classmethod
    def of_folder(cls, folder: MeasurementFolder) -> Rulebook:
        """As it stands in a result folder. Raises ResultError or InputError."""
        text = folder.inputs().get("peak")
        path = folder.path / "inputs.json"
        peak = None if text is None else document.parse(path, text)
        return cls.of_text(document.read(folder.path / "resolved.toml"), peak)

    @classmethod
    def of_text(cls, study: Document, peak: Document | None) -> Rulebook:
        """Of a resolved study and the file of its peak. Raises InputError."""
        model = None if peak is None else peak_file.from_document(peak).model()
        return cls(from_document(study), model)


@dataclass(frozen=True)
class Derived:
    """What the catalog holds of an iteration."""

    by_phase: dict[str, Metrics]
    verdicts: list[Verdict]
    phases: list[Phase]


@dataclass(frozen=True)
class Results:
    """What the raw files of an iteration say, or why they cannot be read."""

    operations: tuple[Operation, ...] = ()
    trouble: str | None = None
    told: Mapping[str, Sequence[Answer]] = field(default_factory=dict)  # by step
    frequencies: Mapping[str, Sequence[Answer]] = field(default_factory=dict)  # the same
    cores: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    host_cores: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    ends: Mapping[str, core_time.Ends] = field(default_factory=dict)  # by phase


def read_results(folder: Path, record: Record) -> Results:
    """The results of every step of an iteration, from its raw folder."""
    if record.failure is not None:
        return Results()
    found: list[Operation] = []
    try:
        said = {step: system_status.read(folder, step) for step in record.steps}
        frequent = {
            step: system_status.read(folder, step, frequencies.KIND) for step in record.steps
        }
        here = {step: core_time.read(folder, step) for step in record.steps}
        there = {step: core_time.read(folder, step, core_time.KIND_HOSTS) for step in record.steps}
        ends: dict[str, core_time.Ends] = {}
        if record.module is not None:
            module = import_module(f"wattio.workloads.{KINDS[record.module]}")
            for step in record.steps:
                found += module.results(folder / step)
                if (known := getattr(module, "ticks", None)) is not None:
                    ends |= known(folder / step)
    except ResultError as error:
        # Where the folder lies now is no part of the verdict.
        return Results(trouble=str(error).replace(f"{folder}/", ""))
    return Results(
        tuple(found),
        told=said,
        frequencies=frequent,
        cores=here,
        host_cores=there,
        ends=ends,
    )


class View:
    """What was recorded in a session, or in a part of it, with what is known of its meters."""

    def __init__(
        self,
        meters: Mapping[str, Facts],
        recorded: Mapping[str, Samples],
        book: Rulebook,
        events: Sequence[Event] = (),
    ) -> None:
        """Put all together. Raises ResultError where nothing is known of one of the meters."""
        self.watched = [_watched(entry, meters, recorded, events) for entry in book.study.meter]
        witness = next((meter for meter in self.watched if meter.facts.estimate), None)
        if witness is None and WITNESS in meters and WITNESS in recorded:
            witness = Watched.of(WITNESS_ENTRY, meters[WITNESS], recorded[WITNESS])
        rules = book.study.rules
        self.stills = [list(verdicts.standstills(meter, rules, witness)) for meter in self.watched]


def derive(record: Record, results: Results, view: View, book: Rulebook) -> Derived:
    """Metrics and verdicts of an iteration, from its results and its session."""
    found: dict[str, Metrics] = {}
    judged = verdicts.of_record(record, results.operations, book.study.rules)
    pairs = list(zip(view.watched, view.stills, strict=True))
    steps = [phase.step for phase in record.phases]
    last = {phase.step: phase for phase in record.phases}
    for phase in record.phases:
        own = [result for result in results.operations if result.phase == phase.span.name]
        meters = [meter.around(phase.span) for meter in view.watched]
        # What the servers took in a step of several phases cannot be told apart.
        alone = steps.count(phase.step) == 1
        account = record.accounts.get(phase.step) if alone else None
        said = results.told.get(phase.step, ()) if alone else ()
        # Deletes that go on after a step are charged to its last phase, where they are.
        after = record.deletes.get(phase.step) if phase is last[phase.step] else None
        charged_s = None if after is None else after.charged_s
        ends = results.ends.get(phase.span.name) if charged_s is None else None
        spent = core_time.spent(phase.span, results.cores.get(phase.step, ()), ends)
        values = metrics.of_phase(
            phase.span, own, meters, book.study, book.peak, account, said, charged_s, spent
        )
        there = core_time.spent_at_hosts(phase.span, results.host_cores.get(phase.step, ()))
        values |= core_time.of_phase(spent, there)
        values |= frequencies.of_phase(phase.span, results.frequencies.get(phase.step, ()))
        for meter, stills in pairs:
            told = verdicts.of_meter(phase.span, meter, stills, book.study.rules)
            if meter.entry.role == "beside" and not verdicts.is_valid(told):
                # What stands beside spoils no iteration; its own figure is left out.
                told = [Verdict("WARN", verdict.reason) for verdict in told]
                values = metrics.without(values, meter)
            judged += told
        found[phase.span.name] = values
    if record.module is None:
        found[IDLE] = found.get(IDLE, {}) | _capacity(record, found.get(IDLE, {}))
    if results.trouble is not None:
        judged = [Verdict("INVALID", f"UNREADABLE: {results.trouble}")]
    judged = list(dict.fromkeys(judged)) or [Verdict("VALID", "")]
    return Derived(found, judged, [_row(phase.span) for phase in record.phases])


def _watched(
    entry: MeterEntry,
    meters: Mapping[str, Facts],
    recorded: Mapping[str, Samples],
    events: Sequence[Event],
) -> Watched:
    """A meter of the study with its samples: none where it said nothing in the whole session."""
    label = entry.shown
    if label not in meters:
        raise ResultError(f"meter {label} is unknown")
    own = [event for event in events if event.label == label]
    return Watched.of(entry, meters[label], recorded.get(label) or Samples.of([]), own)


def _capacity(record: Record, found: Metrics) -> Metrics:
    """Raw capacity per watt of the idle system, gross and net, where the capacity is known."""
    size = record.system.get("raw_capacity_bytes")
    if not isinstance(size, int | float) or size <= 0:
        return {}
    made: Metrics = {"raw_capacity_tb": (size / 1e12, "TB")}
    for prefix in ("", "estimated_"):
        for suffix in ("", "_net"):
            power = found.get(f"{prefix}power_w_mean{suffix}")
            if power is not None and power[0] > 0:
                value = efficiency.capacity_tb_per_watt(size, power[0])
                made[f"{prefix}capacity_tb_per_watt{suffix}"] = (value, "TB/W")
    return made


def _row(span: Span) -> Phase:
    ends = (span.start.utc_ns, span.end.utc_ns, span.start.monotonic_ns, span.end.monotonic_ns)
    return Phase(span.name, *ends)
