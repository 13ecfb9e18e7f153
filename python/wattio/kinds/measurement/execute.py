"""Running of a measurement into its result folder, from the start or from where it stopped."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from wattio.clock import now
from wattio.errors import (
    HostLost,
    ResultError,
    WattioError,
)
from wattio.hosts.hosts import Hosts
from wattio.kinds.measurement import (
    derive,
    integrity_file,
    iterate,
    leftovers,
    preflight,
    study_hosts,
)
from wattio.kinds.measurement import plan as planning
from wattio.kinds.measurement.derive import Derived, Rulebook, View
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.iterate import Served, Session
from wattio.kinds.measurement.overrides import Asked
from wattio.kinds.measurement.plan import MeasurementPlan, Measuring
from wattio.kinds.measurement.preflight import sources, storage_of
from wattio.kinds.measurement.record import Record
from wattio.kinds.measurement.rederive import settle_up
from wattio.kinds.measurement.schema import SystemEntry
from wattio.kinds.measurement.verdicts import is_valid
from wattio.knobs import knobs
from wattio.knobs.holder import Holder
from wattio.meters.meter import Facts, MeterLost
from wattio.recording import Recorder
from wattio.results.runs import Recorded, Verdict
from wattio.systems import claims
from wattio.systems.system import Accounts, Deletes, Falls, System, Tells
from wattio.workloads.workload import Place

_CATCH_UP_S = 10.0
"""How long to wait for the meters' samples after an iteration; a meter that is lost sends none."""


class Watch(Protocol):
    """Told how a measurement gets on."""

    def begun(self, iteration: Measuring) -> None:
        """An iteration begins."""

    def ended(self, iteration: Measuring, verdicts: list[Verdict]) -> None:
        """An iteration is kept."""

    def said(self, text: str) -> None:
        """Something that takes a while, or went wrong and is got over."""


def resume(folder: MeasurementFolder) -> MeasurementPlan:
    """Plan a stopped measurement again. Raises ResultError if it is no longer the same."""
    again = planning.make(folder.unchanged_source(), Asked.of_inputs(folder.inputs()))
    folder.check_again(again)
    return again


def remaining(plan: MeasurementPlan, folder: MeasurementFolder) -> list[Measuring]:
    """What is left: iterations that are not there, and next attempts at those that are INVALID."""
    usable = folder.usable()
    found = []
    for iteration in plan.iterations:
        attempt = iteration
        while attempt.identity in usable:
            if usable[attempt.identity] or attempt.attempt >= plan.study.study.repeat_invalid:
                break
            attempt = plan.again(attempt)
        else:
            found.append(attempt)
    return found


def execute(
    plan: MeasurementPlan,
    folder: MeasurementFolder,
    scratch: Path,
    watch: Watch,
    *,
    resumed: bool = False,
) -> None:
    """Run what is left of a plan, session by session, until nothing is left to repeat.

    However it ends, what is done is kept and the folder can be reported on and resumed. Raises
    ResultError where another process is at work in the folder. Where it was begun by another
    process (`resumed`), what is left is probed first, with what `looks.probe` raises.
    """
    with folder.alone():
        for text in leftovers.removed():
            watch.said(f"left by a killed run: {text}")
        settle_up(folder)
        # Not sooner: what a killed run has left is neither in the way now nor takes any room.
        if resumed and (left := remaining(plan, folder)):
            preflight.probe_left(plan, left, scratch)
        while left := remaining(plan, folder):
            if folder.attached():
                raise ResultError(
                    f"{folder.path}: recorded samples were attached to it, and would be missing for"
                    " what is measured now; run it as a new study"
                )
            try:
                _Session(plan, folder, scratch, watch).run(left)
            except BaseException:
                # What went wrong is told, not what goes wrong because of it.
                with contextlib.suppress(WattioError, OSError):
                    settle_up(folder)
                raise
            finally:
                with contextlib.suppress(OSError):
                    scratch.rmdir()
            # A meter that froze before an iteration's end may have shown it only after.
            settle_up(folder)


@dataclass
class _Session:
    """One uninterrupted time of measuring, with one recording."""

    plan: MeasurementPlan
    folder: MeasurementFolder
    scratch: Path
    watch: Watch

    def run(self, left: list[Measuring]) -> None:
        """Measure what is left, stretch by stretch. Raises HostLost, which says how to go on."""
        try:
            self._run(left)
        except HostLost as error:
            raise HostLost(
                f"{error}; what was measured so far is kept in {self.folder.path}; continue with:"
                f" wattio run --resume {self.folder.path}"
            ) from error

    def _run(self, left: list[Measuring]) -> None:
        name, recording = self.folder.new_session()
        book = Rulebook(self.plan.study, self.plan.peak)
        with contextlib.ExitStack() as stack:
            holder = self._holder(stack)
            recorder = stack.enter_context(Recorder(sources(self.plan), recording))
            hosts = stack.enter_context(study_hosts.connected(self.plan))
            facts = recorder.start()
            session = Session(name, _named(facts, self.plan), threading.Event(), hosts)
            systems = {entry.name: entry for entry in self.plan.study.system}
            for own in self.plan.stretches(left):
                system = systems[own[0].run.system]
                clients = max((item.cell.clients for item in own if item.cell), default=1)
                with self._served(system, clients, hosts) as (storage, served):
                    self._warm_up(own, served, session)
                    for item in own:
                        self._iterate(item, served, session, holder, recorder, book, storage)

    def _holder(self, stack: contextlib.ExitStack) -> Holder | None:
        """What holds the knobs, where there are any or a killed run has left some changed."""
        own = [
            knob for knob in self.plan.study.knob if study_hosts.turns_here(self.plan, knob.name)
        ]
        if not own and not leftovers.knobs_changed():
            return None
        return stack.enter_context(Holder())

    @contextlib.contextmanager
    def _served(
        self, entry: SystemEntry, clients: int, hosts: Hosts | None
    ) -> Iterator[tuple[System, Served]]:
        """A system that is up and mounted; taken down again on every way out."""
        scratch = self.scratch / entry.folder
        storage = storage_of(entry, scratch, self.plan, hosts)
        self.watch.said(f"bringing up {entry.name}")
        with claims.held(self.folder.path, entry.module, entry.options, scratch) as claim:
            if claim.trouble:
                self.watch.said(f"{claim.trouble}; wattio clean could not find what a kill leaves")
            try:
                storage.deploy()
                storage.start()
                places = storage.mount(clients)
                storage.verify_mount()
                account = storage.processor_time_s if isinstance(storage, Accounts) else None
                tells = storage if isinstance(storage, Tells) else None
                falls = storage if isinstance(storage, Falls) else None
                if falls is not None:
                    integrity_file.write(places, hosts)
                yield (
                    storage,
                    Served(
                        places,
                        storage.describe() | _facts(hosts),
                        storage.processes(),
                        account,
                        None if tells is None else tells.status,
                        0.0 if tells is None else tells.status_period_s,
                        partial(_check, storage, places, hosts) if falls else None,
                        None if falls is None else falls.abandon,
                        storage if isinstance(storage, Deletes) else None,
                    ),
                )
            finally:
                self.watch.said(f"taking down {entry.name}")
                claims.take_down(storage)
                claim.over = True

    def _make_sure(self, storage: System, hosts: Hosts | None) -> None:
        """Have hosts back that were lost, or go on without them; the system is mounted there."""
        entry = self.plan.study.hosts
        while True:
            away = study_hosts.rejoin(hosts, "stop" if entry is None else entry.lost)
            for said in away.values():
                self.watch.said(f"continues without {said}")
            try:
                return storage.verify_mount()
            except HostLost:
                # It was lost just now.
                if hosts is None or all(host.is_open for host in hosts):
                    raise

    def _warm_up(self, own: list[Measuring], served: Served, session: Session) -> None:
        """Run each workload as often as the study says, by as many clients as it has at most."""
        by_clients = sorted(own, key=lambda item: item.cell.clients if item.cell else 0)
        most = {item.run.subject: item for item in by_clients if item.cell}
        for item in most.values():
            for _ in range(self.plan.study.study.warm_up):
                self.watch.said(f"warming up: {item.run.name}")
                raw = self.folder.path / "raw" / ".warm-up"
                iterate.warm_up(item, self.plan, served, session, raw)

    def _iterate(
        self,
        first: Measuring,
        served: Served,
        session: Session,
        holder: Holder | None,
        recorder: Recorder,
        book: Rulebook,
        storage: System,
    ) -> None:
        """Measure an iteration, again while it turns out INVALID and may be repeated."""
        iteration = first
        while True:
            self._make_sure(storage, session.hosts)
            self.watch.begun(iteration)
            self._turn(iteration, holder, session.hosts)
            record = iterate.run(iteration, self.plan, served, session, self.folder)
            self._catch_up(record, recorder)
            found = self._derive(record, recorder, book)
            self._keep(iteration, found)
            self.watch.ended(iteration, found.verdicts)
            again = iteration.attempt < self.plan.study.study.repeat_invalid
            if is_valid(found.verdicts) or not again:
                return
            iteration = self.plan.again(iteration)

    def _turn(self, iteration: Measuring, holder: Holder | None, hosts: Hosts | None) -> None:
        """Set the knobs of an iteration, here and on hosts; an idle one finds them as they were."""
        values = {} if iteration.cell is None else iteration.cell.knobs
        study_hosts.turn(self.plan, hosts, values)
        if holder is None:
            return
        if iteration.cell is None:
            holder.restore()
        for name, value in values.items():
            if study_hosts.turns_here(self.plan, name):
                holder.put(knobs.assignments(name, value))

    def _derive(self, record: Record, recorder: Recorder, book: Rulebook) -> Derived:
        """Metrics and verdicts so far: what was recorded shortly before, and since.

        How long a meter was frozen is known only at the session's end, and judged again there.
        """
        rules = book.study.rules
        paces = self._paces(record)
        since_ns = {
            label: record.start.monotonic_ns - round(2e9 * rules.frozen_periods * period_s)
            for label, (period_s, _) in paces.items()
        }
        until_ns = now().monotonic_ns
        recorded = {label: recorder.read(label, ns, until_ns) for label, ns in since_ns.items()}
        results = derive.read_results(self.folder.raw(record.identity), record)
        view = View(record.meters, recorded, book, recorder.events())
        return derive.derive(record, results, view, book)

    def _catch_up(self, record: Record, recorder: Recorder) -> None:
        """Wait for a sample beyond the end, so that the last phase's energy is bounded by two."""
        for label, (period_s, lag_s) in self._paces(record).items():
            beyond_ns = record.end.monotonic_ns + int((lag_s + period_s) * 1e9)
            wait_s = _CATCH_UP_S + lag_s + 2 * period_s
            if not recorder.caught_up(label, beyond_ns, wait_s):
                self.watch.said(f"meter {label} sends no samples")
        # A lost meter may come back; nothing comes any more where all have ended.
        if not recorder.is_sampling:
            last = recorder.events()[-1]
            raise MeterLost(
                f"recording has ended: {last.text}; what was measured so far is kept"
                f" in {self.folder.path}; continue with: wattio run --resume {self.folder.path}"
            )

    def _paces(self, record: Record) -> dict[str, tuple[float, float]]:
        """Of each meter: how often it is read, and its lag; what the study says comes first."""
        said = {entry.shown: entry for entry in self.plan.study.meter}
        found = {}
        for label, facts in record.meters.items():
            entry = said.get(label)
            period_s = (entry and entry.period) or facts.period_s
            lag_s = facts.lag_s if entry is None or entry.lag is None else entry.lag
            found[label] = max(period_s, facts.period_s), lag_s
        return found

    def _keep(self, iteration: Measuring, found: Derived) -> None:
        recorded = Recorded(
            identity=iteration.identity,
            run=iteration.run,
            seed=iteration.seed,
            repetition=iteration.repetition,
            derived_seed=iteration.seed,
            attempt=iteration.attempt,
            verdicts=tuple(found.verdicts),
            by_phase=found.by_phase,
        )
        with self.folder.catalog() as catalog:
            catalog.add(recorded, found.phases, "measurement")


def _facts(hosts: Hosts | None) -> dict[str, Any]:
    """What hosts told of themselves, for results."""
    return {} if hosts is None else {"hosts": {host.name: dict(host.facts) for host in hosts}}


def _check(storage: System, places: Sequence[Place], hosts: Hosts | None) -> None:
    """Raise SystemFailed where servers or mounts have gone, or what was written is another."""
    storage.verify_mount()
    integrity_file.check(places, hosts)


def _named(facts: Mapping[str, Facts], plan: MeasurementPlan) -> dict[str, Facts]:
    """Facts of the meters, with the accuracy class that the study gives where it gives one."""
    classes: dict[str, Any] = {
        entry.shown: entry.accuracy_class for entry in plan.study.meter if entry.accuracy_class
    }
    return {
        label: replace(found, accuracy_class=classes.get(label, found.accuracy_class))
        for label, found in facts.items()
    }
