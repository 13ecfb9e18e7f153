"""One iteration on a system that is served: its phases run, and when and how it went is kept."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio.clock import Span, now
from wattio.errors import Cancelled, SystemFailed, WorkloadFailed
from wattio.hosts.clocks import Drift
from wattio.hosts.hosts import Hosts
from wattio.kinds.measurement import (
    between_phases,
    core_time,
    foreign_load,
    frequencies,
    study_hosts,
    system_status,
)
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.foreign_load import Others
from wattio.kinds.measurement.plan import BEFORE, MeasurementPlan, Measuring
from wattio.kinds.measurement.record import Account, Deletes, Phase, Record, on_disk
from wattio.kinds.measurement.schema import IDLE
from wattio.knobs.texts import here
from wattio.meters.meter import Facts
from wattio.systems.system import Deletes as Deleting
from wattio.workloads.workload import Context, Place, Workload

_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_PREPARING = "prepare"
_LEFT = "deletes of servers are not waited for, and run beside later phases"


@dataclass(frozen=True)
class Served:
    """A system that is up: where its clients work, what it says of itself, and its processes.

    `processor_time_s` tells what its servers took since they were started, where that is known;
    `status` how they stand, asked so often while a step runs, beside its ends. `check` raises
    SystemFailed where one of them has gone, `abandon` has what works on them fail; `deleting` says
    what they still have to do for others.
    """

    places: Sequence[Place]
    facts: Mapping[str, Any]
    processes: Sequence[int]
    processor_time_s: Callable[[], float] | None = None
    status: system_status.Ask | None = None
    status_period_s: float = 0.0
    check: Callable[[], None] | None = None
    abandon: Callable[[], None] | None = None
    deleting: Deleting | None = None

    @property
    def awaited(self) -> Deleting | None:
        """The servers whose deletes are waited for."""
        it = self.deleting
        return None if it is None or it.deletes == "left" else it

    def watching(self) -> contextlib.AbstractContextManager[None]:
        """Have what runs meanwhile fail, where it would wait for servers that have gone."""
        return between_phases.watched(self.processes, self.abandon)

    @contextlib.contextmanager
    def accounted(self, step: str, accounts: dict[str, Account]) -> Iterator[None]:
        """Add what the servers take meanwhile to the accounts, where that is known."""
        if self.processor_time_s is None:
            yield
            return
        began, before_s = now(), self.processor_time_s()
        yield
        after_s = self.processor_time_s()
        accounts[step] = Account(after_s - before_s, Span(step, began, now()).seconds)

    @contextlib.contextmanager
    def telling(self, step: str, raw: Path, hosts: Hosts | None) -> Iterator[None]:
        """Keep what servers say of themselves meanwhile, and the kernels of their cores."""
        look = study_hosts.frequency_look(hosts)
        there, slow_s = study_hosts.core_look(hosts), core_time.SLOW_S
        # The last one is the nearest to the step.
        with (
            system_status.kept(self.status, self.status_period_s, raw, step),
            system_status.kept(look, frequencies.LOOK_S, raw, step, frequencies.KIND),
            system_status.kept(there, slow_s, raw, step, core_time.KIND_HOSTS),
            system_status.kept(
                core_time.asking(here()), core_time.LOOK_S, raw, step, core_time.KIND
            ),
        ):
            yield


@dataclass(frozen=True)
class Session:
    """What all iterations of a session share."""

    name: str
    meters: Mapping[str, Facts]
    cancelled: threading.Event
    hosts: Hosts | None = None


def run(
    iteration: Measuring,
    plan: MeasurementPlan,
    served: Served,
    session: Session,
    folder: MeasurementFolder,
) -> Record:
    """Run an iteration and leave its raw folder, whole. A tool that fails is part of the record.

    Raises Cancelled, and KeyboardInterrupt; the raw folder is not there then.
    """
    part = folder.path / "raw" / f".{iteration.identity}.part"
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        record = _record(iteration, plan, served, session, part)
        record.write(part)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    whole = folder.raw(iteration.identity)
    shutil.rmtree(whole, ignore_errors=True)
    part.replace(whole)
    on_disk(whole)
    return record


def warm_up(
    iteration: Measuring, plan: MeasurementPlan, served: Served, session: Session, raw: Path
) -> None:
    """Run the workload of an iteration without keeping anything. Raises WorkloadFailed."""
    if iteration.cell is None:
        return
    shutil.rmtree(raw, ignore_errors=True)
    raw.mkdir(parents=True)
    try:
        work = plan.work(iteration.cell.workload)
        _Steps(work, iteration.cell.clients, served, raw, plan, session).run_all()
    finally:
        shutil.rmtree(raw, ignore_errors=True)


def _record(
    iteration: Measuring, plan: MeasurementPlan, served: Served, session: Session, raw: Path
) -> Record:
    start = now()
    facts: dict[str, Any] = {}
    doubts: list[str] = []
    taken: dict[str, dict[str, Others]] = {}
    phases: list[Phase] = []
    accounts: dict[str, Account] = {}
    drifts: dict[str, Drift] = {}
    deletes: dict[str, Deletes] = {}
    failure, module, dropped = None, None, False
    if served.awaited is not None:
        _, doubt = between_phases.wait(served.awaited.unsettled, session.cancelled)
        doubts += [] if doubt is None else [doubt]
        start = now()
    elif served.deleting is not None:
        doubts.append(_LEFT)
    if iteration.cell is None:
        watched = _watched(IDLE, served, session.hosts, taken)
        # Outside of the account: to answer takes time of the server.
        telling = served.telling(IDLE, raw, session.hosts)
        with telling, watched, served.accounted(IDLE, accounts):
            phases = [_idle(iteration, plan, session)]
    else:
        module = iteration.cell.workload.module
        work = plan.work(iteration.cell.workload)
        facts = work.describe()
        steps = _Steps(work, iteration.cell.clients, served, raw, plan, session)
        places = served.places[: iteration.cell.clients]
        try:
            before = study_hosts.clocks(session.hosts, places)
            steps.run_all()
            after = study_hosts.clocks(session.hosts, places)
            drifts = {name: Drift(before[name], after[name]) for name in before}
        except WorkloadFailed as error:
            failure = str(error)
        phases, dropped = steps.phases, steps.dropped
        doubts += [doubt for doubt in steps.doubts if doubt not in doubts]
        taken, deletes = steps.others, steps.deletes
        for phase in phases:
            looks = system_status.read(raw, phase.step, frequencies.KIND)
            doubts += study_hosts.doubts_of(plan, phase.span, looks, iteration.cell.knobs)
        accounts = steps.accounts
    return Record(
        identity=iteration.identity,
        session=session.name,
        module=module,
        attempt=iteration.attempt,
        start=start,
        end=now(),
        phases=tuple(phases),
        meters=session.meters,
        system=served.facts,
        workload=facts,
        caches_dropped=dropped,
        doubts=tuple(doubts),
        others=taken.pop("", {}),
        others_at=taken,
        failure=failure,
        hosts=drifts,
        accounts=accounts,
        deletes=deletes,
    )


def _idle(iteration: Measuring, plan: MeasurementPlan, session: Session) -> Phase:
    """The system is served, and nothing is asked of it."""
    head = plan.study.study
    before = iteration.run.condition.endswith(BEFORE)
    start = now()
    _wait(session.cancelled, head.idle_before if before else head.idle_after)
    return Phase(IDLE, Span(IDLE, start, now()))


@contextlib.contextmanager
def _watched(
    step: str, served: Served, hosts: Hosts | None, found: dict[str, dict[str, Others]]
) -> Iterator[None]:
    """Note what others take of the machines' processors while a step runs to its end."""
    before = study_hosts.busy(hosts, served.processes)
    yield
    for name, after in study_hosts.busy(hosts, served.processes).items():
        taken = foreign_load.between(before.get(name), after)
        if taken is not None:
            found.setdefault(name, {})[step] = taken


class _Steps:
    """The steps of a workload, one after the other, each with caches dropped and settled."""

    def __init__(
        self,
        work: Workload,
        clients: int,
        served: Served,
        raw: Path,
        plan: MeasurementPlan,
        session: Session,
    ) -> None:
        self.phases: list[Phase] = []
        self.doubts: list[str] = []
        self.others: dict[str, dict[str, Others]] = {}
        self.dropped = False
        self.accounts: dict[str, Account] = {}
        self.deletes: dict[str, Deletes] = {}
        self._work = work
        self._served = served
        self._places = tuple(served.places[:clients])
        self._raw = raw
        self._head = plan.study.study
        self._cancelled = session.cancelled
        self._hosts = session.hosts

    def run_all(self) -> None:
        try:
            self._work.prepare(self._context(_PREPARING))
            self._settle_before()
            for step in self._work.steps():
                context = self._context(step)
                if self._head.drop_caches:
                    self.dropped = self._drop_caches()
                _wait(self._cancelled, self._head.settle)
                try:
                    with (
                        self._served.telling(step, self._raw, self._hosts),
                        _watched(step, self._served, self._hosts, self.others),
                        self._served.accounted(step, self.accounts),
                        self._served.watching(),
                    ):
                        spans = self._work.run(step, context)
                finally:
                    # A server that has gone is why a step failed, and a reason not to trust one.
                    self._check(step)
                self.phases += [Phase(step, span) for span in spans]
                self._settle(step)
        finally:
            self._work.clean(self._context(_PREPARING))
            with contextlib.suppress(OSError):
                (self._raw / _PREPARING).rmdir()  # Most workloads leave nothing there.

    def _check(self, step: str) -> None:
        if self._served.check is None or self._cancelled.is_set():
            return
        try:
            self._served.check()
        except SystemFailed as error:
            raise WorkloadFailed(f"{step}: {error}") from error

    def _settle_before(self) -> None:
        """Wait for what was deleted to make room for the steps; it belongs to none of them."""
        if self._served.awaited is not None:
            _, doubt = between_phases.wait(self._served.awaited.unsettled, self._cancelled)
            self._doubt(doubt)

    def _doubt(self, text: str | None) -> None:
        if text is not None and text not in self.doubts:
            self.doubts.append(text)

    def _settle(self, step: str) -> None:
        """Wait for deletes that the step has caused; they belong to its last phase, or to none."""
        deleting = self._served.awaited
        if deleting is None or not self.phases:
            return
        last = self.phases[-1]
        seconds, doubt = between_phases.wait(deleting.deletes_left, self._cancelled)
        self._doubt(doubt)
        if not seconds:
            return
        charged_s = None
        if deleting.deletes == "charged":
            end = now()
            charged_s = (end.monotonic_ns - last.span.end.monotonic_ns) / 1e9
            self.phases[-1] = Phase(step, Span(last.span.name, last.span.start, end))
        self.deletes[step] = Deletes(seconds, charged_s)

    def _context(self, step: str) -> Context:
        raw = self._raw / step
        raw.mkdir(exist_ok=True)
        return Context(self._places, raw, self._cancelled, self._hosts)

    def _drop_caches(self) -> bool:
        """Write back and forget what page caches hold, here and there; a doubt where it may not."""
        os.sync()
        try:
            _DROP_CACHES.write_text("3\n")
            why = study_hosts.drop_caches(self._hosts, self._places)
        except OSError as error:
            why = error.strerror
        if why is not None:
            doubt = f"caches were not dropped before phases: {why}; that needs root"
            if doubt not in self.doubts:
                self.doubts.append(doubt)
            return False
        return True


def _wait(cancelled: threading.Event, seconds: float) -> None:
    if cancelled.wait(seconds):
        raise Cancelled("stopped")
