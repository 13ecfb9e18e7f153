"""The plan of a measurement: every iteration, in its order, with its identity."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from wattio.analysis.peak import Peak
from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import Document, nearest
from wattio.files.named import read_bytes
from wattio.kinds.measurement.overrides import (
    Asked,
    located,
    with_hosts,
    with_meter,
    without_systems,
)
from wattio.kinds.measurement.schema import (
    IDLE,
    KIND,
    MeasurementStudy,
    SystemEntry,
    WorkloadEntry,
    from_document,
    with_scale,
)
from wattio.knobs import knobs
from wattio.knobs.knobs import Value
from wattio.meters import estimate, kind_of, public_name
from wattio.peak import file as peak_file
from wattio.results.plan import Iteration, Plan, digest
from wattio.results.runs import Run
from wattio.systems import DEVICES, kinds
from wattio.workloads import KINDS as WORKLOADS
from wattio.workloads import OF_DEVICES
from wattio.workloads.workload import Workload

BEFORE, AFTER = "before", "after"

_AS_IT_IS = Asked()


@dataclass(frozen=True)
class Cell:
    """What is measured: a workload of a number of clients on a system, with knobs set."""

    system: SystemEntry
    workload: WorkloadEntry
    clients: int
    knobs: Mapping[str, Value]

    @property
    def run(self) -> Run:
        """The cell as the catalog names it."""
        parts = [self.system.name, f"{self.clients} client{'s' if self.clients > 1 else ''}"]
        parts += [f"{name}={value}" for name, value in self.knobs.items()]
        settings = {"clients": self.clients, **self.knobs}
        return _run(self.workload.name, self.system.name, ", ".join(parts), settings)


class Measuring(Iteration[Cell | None]):
    """One measuring of a cell, or of the idle system if there is none."""

    @property
    def cell(self) -> Cell | None:
        """What is measured; None for the idle system."""
        return self.request

    @property
    def name(self) -> str:
        """How a progress line names it."""
        again = f" attempt {self.attempt + 1}" if self.attempt else ""
        return f"{self.run.name} repetition {self.repetition + 1}{again}"


@dataclass(frozen=True)
class MeasurementPlan(Plan):
    """All iterations of a study in their order, and the study with every default."""

    iterations: tuple[Measuring, ...]
    study: MeasurementStudy
    asked: Asked
    peak: Peak | None
    peak_text: str | None

    kind = KIND

    @property
    def resolved(self) -> dict[str, Any]:
        """The study with every default filled in and its scale applied; secrets are hidden."""
        plain = self.study.model_dump(mode="json", exclude={"scale"})
        for meter in plain["meter"]:
            meter["name"] = public_name(meter["name"])
        return {key: value for key, value in plain.items() if value}

    @property
    def is_estimated(self) -> bool:
        """Whether a total is an estimate, and with it every energy."""
        totals = [meter for meter in self.study.meter if meter.role == "total"]
        return any(meter.name.startswith("estimate:") for meter in totals)

    @property
    def is_secret(self) -> bool:
        """Whether the name of a meter holds a password or community."""
        return any(public_name(meter.name) != meter.name for meter in self.study.meter)

    @property
    def inputs(self) -> dict[str, Any]:
        """What was asked for, and the text of the file of the theoretical peak."""
        return {**asdict(self.asked), "peak": self.peak_text}

    @property
    def runs(self) -> list[Run]:
        """Every run in the order of the study, whatever the order of its iterations is."""
        found = []
        for system in self.study.system:
            before, after = (_idle_run(system, when) for when in (BEFORE, AFTER))
            found += [before, *(cell.run for cell in _cells(self.study, system)), after]
        planned = {item.run.name for item in self.iterations}
        return [run for run in found if run.name in planned]

    def work(self, entry: WorkloadEntry) -> Workload:
        """The workload of an entry, made."""
        return make_work(entry, self.base)

    def stretches(self, left: Sequence[Measuring]) -> Iterator[list[Measuring]]:
        """Iterations that follow each other on a system that stays up."""
        if self.study.study.order == "interleaved":
            yield from ([item] for item in left)
            return
        for _, own in itertools.groupby(left, key=lambda item: item.run.system):
            yield list(own)

    def again(self, iteration: Measuring) -> Measuring:
        """The next attempt at an iteration."""
        attempt = iteration.attempt + 1
        return replace(
            iteration, identity=digest([iteration.identity, attempt])[:16], attempt=attempt
        )


def make(source: Document, asked: Asked = _AS_IT_IS) -> MeasurementPlan:
    """Resolve a study into its plan. Raises InputError that names file, line and key.

    Nothing of the host is looked at but the files that the study names.
    """
    base = source.path.resolve().parent
    study = without_systems(with_hosts(from_document(source, asked.scale), asked), asked.without)
    study = with_meter(located(study, base), asked.meter, asked.each)
    if asked.peak_file is not None:
        head = study.study.model_copy(update={"peak": asked.peak_file})
        study = study.model_copy(update={"study": head})
    written = source if asked.scale is None else with_scale(source, asked.scale)
    _check_parts(study, written, base)
    peak = _peak(study, source, base, asked)
    identities = _Identities(study, base)
    order = _interleaved if study.study.order == "interleaved" else _by_system
    iterations = tuple(order(study, identities))
    return MeasurementPlan(source, iterations, study, asked, *peak)


def _interleaved(study: MeasurementStudy, identities: _Identities) -> Iterator[Measuring]:
    """Repetition by repetition, all cells of all systems in an order of its own."""
    cells = [cell for system in study.system for cell in _cells(study, system)]
    if study.study.idle_before:
        for system in study.system:
            yield identities.iteration(_idle_run(system, BEFORE), 0, None)
    for repetition in range(study.study.repetitions):
        generator = np.random.default_rng((study.study.seed, repetition))
        for place in generator.permutation(len(cells)):
            yield identities.iteration(cells[place].run, repetition, cells[place])
    if study.study.idle_after:
        for system in study.system:
            yield identities.iteration(_idle_run(system, AFTER), 0, None)


def _by_system(study: MeasurementStudy, identities: _Identities) -> Iterator[Measuring]:
    """System by system, each in an order of its own."""
    for system in study.system:
        cells = list(_cells(study, system))
        inner = [
            identities.iteration(cell.run, repetition, cell)
            for repetition in range(study.study.repetitions)
            for cell in cells
        ]
        if study.study.order == "random":
            # Each system has an order of its own that does not depend on the others.
            seed = int(digest([study.study.seed, system.name])[:15], 16)
            inner = [inner[place] for place in np.random.default_rng(seed).permutation(len(inner))]
        before, after = (_idle_run(system, when) for when in (BEFORE, AFTER))
        if study.study.idle_before:
            inner.insert(0, identities.iteration(before, 0, None))
        if study.study.idle_after:
            inner.append(identities.iteration(after, 0, None))
        yield from inner


def make_work(entry: WorkloadEntry, base: Path) -> Workload:
    """The workload of an entry. Raises InputError for options that it does not take."""
    module = import_module(f"wattio.workloads.{WORKLOADS[entry.module]}")
    work: Workload = module.Work(module.Options.model_validate(entry.options), base)
    return work


def _check_parts(study: MeasurementStudy, source: Document, base: Path) -> None:
    """Kinds are known, and options are what each kind takes."""
    # By name, for systems, and workloads of these, may have been left out.
    systems, workloads = (
        [entry["name"] for entry in source.content[part]] for part in ("system", "workload")
    )
    for system in study.system:
        index = systems.index(system.name)
        _check_kind(source, ("system", index), system.module, kinds.names())
        try:
            model = kinds.module_of(system.module).Options
        except InputError as error:
            raise source.error(("system", index, "kind"), str(error)) from None
        document.validate_part(model, system.options, source, ("system", index, "options"))
    for entry in study.workload:
        place = ("workload", workloads.index(entry.name))
        _check_kind(source, place, entry.module, list(WORKLOADS))
        model = import_module(f"wattio.workloads.{WORKLOADS[entry.module]}").Options
        document.validate_part(model, entry.options, source, (*place, "options"))
        try:
            make_work(entry, base)
        except InputError as error:
            raise source.error(place, str(error)) from None
        _check_devices(study, entry, source, place)
    for index, knob in enumerate(study.knob):
        try:
            knobs.check(knob.name, knob.values)
        except InputError as error:
            raise source.error(("knob", index), str(error)) from None
    for index, meter in enumerate(study.meter):
        try:
            kind_of(meter.name)
        except InputError as error:
            raise source.error(("meter", index, "name"), str(error)) from None


def _check_devices(
    study: MeasurementStudy, entry: WorkloadEntry, source: Document, place: tuple[str, int]
) -> None:
    """What needs a folder is not run on a system that serves a block device."""
    if entry.module in OF_DEVICES:
        return
    for system in study.system:
        if system.module in DEVICES and system.name in (entry.systems or [system.name]):
            known = ", ".join(OF_DEVICES)
            message = f'"{entry.module}" needs a folder, but system "{system.name}" serves a block'
            raise source.error(place, f"{message} device; allowed for those: {known}")


def _check_kind(source: Document, place: tuple[str, int], kind: str, known: Sequence[str]) -> None:
    if kind not in known:
        message = f'"{kind}" is not known; {nearest(kind, list(known))}'
        raise source.error((*place, "kind"), message)


def _peak(
    study: MeasurementStudy, source: Document, base: Path, asked: Asked
) -> tuple[Peak | None, str | None]:
    """The theoretical peak that a study names, and the text of its file."""
    if study.study.peak is None:
        return None, None
    try:
        content = document.read(base / study.study.peak)
        return peak_file.from_document(content).model(), content.text
    except InputError as error:
        if asked.peak_file is not None:
            raise InputError(f"--peak {error}") from None
        raise source.error(("study", "peak"), str(error)) from None


def _cells(study: MeasurementStudy, system: SystemEntry) -> Iterator[Cell]:
    """Every workload, number of clients and combination of knobs on a system."""
    names = [knob.name for knob in study.knob]
    for workload in study.workload:
        if system.name not in (workload.systems or [system.name]):
            continue
        for clients in workload.clients or study.study.clients:
            for values in itertools.product(*(knob.values for knob in study.knob)):
                yield Cell(system, workload, clients, dict(zip(names, values, strict=True)))


def _idle_run(system: SystemEntry, when: str) -> Run:
    return _run(IDLE, system.name, f"{system.name}, {when}", {})


def _run(load: str, system: str, label: str, settings: Mapping[str, Value]) -> Run:
    return Run(load, system, label, settings)


class _Identities:
    """Makes iterations whose identity is the hash of everything that decides their result."""

    def __init__(self, study: MeasurementStudy, base: Path) -> None:
        head = study.study.model_dump(include={"settle", "drop_caches", "seed"})
        # Which devices stood together in the study decides nothing.
        meters = [meter.model_dump(mode="json", exclude={"each"}) for meter in study.meter]
        for meter in meters:
            meter["name"] = _with_model(meter["name"])
        self._base = base
        self._seed = study.study.seed
        self._shared = {"study": head, "meters": meters, "wattio": version("wattio")}
        if study.hosts is not None:
            named = study.hosts.client_names(), study.hosts.server_names()
            self._shared["hosts"] = named

    def iteration(self, run: Run, repetition: int, cell: Cell | None) -> Measuring:
        """The first attempt at a repetition of a run."""
        content = {**self._shared, "run": run.name, "repetition": repetition}
        if cell is not None:
            content["workload"] = (
                cell.workload.module,
                _with_files(cell.workload.options, self._base),
            )
            content["system"] = cell.system.module, cell.system.options
        return Measuring(digest(content)[:16], run, self._seed, repetition, cell)


def _with_model(name: str) -> str:
    """A meter's name; that of an estimate with the digest of its model, which decides the energy.

    What the model's file says counts, not where it lies: a host may be calibrated meanwhile.
    """
    if name.partition(":")[0] != estimate.SCHEME:
        return name
    try:
        model = estimate.model_of(name)
        if model == estimate.ASSUMED:
            return name
        content = read_bytes(Path(model))
    except (InputError, OSError):  # Told when the meter is opened.
        return name
    _, mark, query = name.partition("?")
    return f"{hashlib.sha256(content).hexdigest()}{mark}{query}"


def _with_files(options: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Options, with the digest of what a file says for each that is the path of one."""
    found = dict(options)
    for key, value in options.items():
        if isinstance(value, str) and value and (base / value).is_file():
            status = (base / value).stat()
            found[key] = _digest(base / value, status.st_size, status.st_mtime_ns)
    return found


@functools.lru_cache(maxsize=64)
def _digest(path: Path, size_bytes: int, modified_ns: int) -> str:
    """Of a file's content: archives are large, and asked for once for each iteration."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
