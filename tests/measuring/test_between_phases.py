"""Deletes that servers still do, and servers that die while a step runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from wattio.clock import Span
from wattio.errors import Cancelled, SystemFailed, WorkloadFailed
from wattio.kinds.measurement import between_phases, derive, iterate, metrics, record
from wattio.kinds.measurement.derive import Results, Rulebook, View
from wattio.kinds.measurement.iterate import Served, Session
from wattio.kinds.measurement.record import Deletes, Phase
from wattio.results.runs import Metrics
from wattio.workloads.workload import Context, Operation, Place

from measuring import made
from measuring.test_metrics import study


class Never(threading.Event):
    """A wish to stop that never comes, and does not take the time to wait for it."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


def counted(*counts: int | None) -> Callable[[], int | None]:
    answers: Iterator[int | None] = iter(counts)
    return lambda: next(answers)


def test_where_nothing_is_left_nothing_is_charged() -> None:
    assert between_phases.wait(counted(0), Never()) == (0.0, None)


def test_what_is_left_is_waited_for() -> None:
    seconds, doubt = between_phases.wait(counted(9, 4, 1, 0), Never())
    assert seconds > 0
    assert doubt is None


def test_servers_that_say_nothing_are_doubted() -> None:
    def fails() -> int:
        raise SystemFailed("it does not answer")

    for ask in (counted(None), fails):
        seconds, doubt = between_phases.wait(ask, Never())
        assert seconds == 0
        assert doubt == "servers did not say whether they still delete"


def test_waiting_has_a_limit_that_is_told() -> None:
    seconds, doubt = between_phases.wait(lambda: 3, Never(), limit_s=0.0)
    assert doubt == "servers still had 3 deletes to do after 0 s"
    assert seconds >= 0


def test_who_wants_to_stop_does_not_wait() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        between_phases.wait(lambda: 1, stop)


def test_a_process_that_dies_is_noticed_at_once() -> None:
    """What works on a mount whose servers were killed waits for ever, and a campaign with it."""
    fallen = threading.Event()
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
        between_phases.watched([process.pid], fallen.set),
    ):
        assert not fallen.is_set()
        process.kill()
        assert fallen.wait(10)


def test_processes_that_live_are_left_alone() -> None:
    fallen = threading.Event()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with between_phases.watched([process.pid, 2**22 + 1], fallen.set):
            pass
        process.kill()
    assert not fallen.is_set()


def of_phase(deletes_s: float | None) -> Metrics:
    """A phase of 8 s of work, and of deletes after it, at 10 W and then 5 W."""
    recorded = made.samples(np.arange(0.0, 30.0, 0.01), lambda t: np.where(t < 18.0, 10.0, 5.0))
    work = Operation("remove", "remove", 8.0, 2**20 * 80, 400, 10.0, 50.0)
    phase = made.span("remove", 10.0, 18.0 + (deletes_s or 0.0))
    meters = [made.watched(recorded)]
    return metrics.of_phase(phase, [work], meters, study(), None, deletes_s=deletes_s)


def test_charged_deletes_cost_energy_and_change_no_rate() -> None:
    """The servers' own work after a step was nobody's: its energy divides what the step did."""
    without, charged = of_phase(None), of_phase(4.0)
    assert charged["deletes_s"] == (4.0, "s")
    assert charged["seconds"][0] == pytest.approx(12.0)
    assert charged["iops"] == without["iops"]
    assert charged["energy_j"][0] == pytest.approx(8 * 10 + 4 * 5, rel=1e-3)
    assert charged["mib_per_joule"][0] == pytest.approx(80 / 100, rel=1e-3)
    assert charged["iops_per_watt"][0] == pytest.approx(400 / 100, rel=1e-3)
    assert charged["energy_j_per_io"][0] == pytest.approx(100 / 400, rel=1e-3)
    assert without["mib_per_joule"][0] == pytest.approx(80 / 80, rel=1e-3)


def test_deletes_of_a_step_belong_to_its_last_phase() -> None:
    create, remove = made.span("create", 10.0, 14.0), made.span("remove", 14.0, 20.0)
    kept = replace(
        made.record(create, remove),
        phases=(Phase("files", create), Phase("files", remove)),
        deletes={"files": Deletes(2.5, 2.0)},
    )
    recorded = {"pdu": made.samples(np.arange(0.0, 30.0, 0.1), lambda t: 10.0 + 0.1 * t)}
    book = Rulebook(study(meter=[{"name": "snmp://pdu", "label": "pdu", "covers": ["all"]}]), None)
    found = derive.derive(kept, Results(), View(kept.meters, recorded, book), book).by_phase
    assert "deletes_s" not in found["create"]
    assert found["remove"]["deletes_s"] == (2.0, "s")


def test_deletes_are_kept_with_the_record(tmp_path: Path) -> None:
    kept = made.record(
        made.span("a", 1.0, 2.0), deletes={"a": Deletes(3.0), "b": Deletes(1.0, 1.1)}
    )
    kept.write(tmp_path)
    assert record.read(tmp_path).deletes == kept.deletes


class Dying:
    """A workload whose server dies under it, and which does not notice."""

    def prepare(self, context: Context) -> None:
        """Nothing."""

    def steps(self) -> tuple[str, ...]:
        return ("write",)

    def run(self, step: str, context: Context) -> list[Span]:
        return [made.span(step, 1.0, 2.0)]

    def clean(self, context: Context) -> None:
        """Nothing."""


def steps_on(served: Served, raw: Path) -> iterate._Steps:
    """The steps of such a workload on a system, with nothing to wait for."""
    head = SimpleNamespace(drop_caches=False, settle=0.0)
    plan: Any = SimpleNamespace(study=SimpleNamespace(study=head))
    work: Any = Dying()
    return iterate._Steps(work, 1, served, raw, plan, Session("1", {}, threading.Event()))


def test_a_step_whose_server_died_has_failed_though_the_workload_did_not_see_it(
    tmp_path: Path,
) -> None:
    """CephFS goes on with one of two copies: half of what was asked for would count as all."""

    def check() -> None:
        raise SystemFailed("osd2: ceph-osd has ended: out of room")

    steps = steps_on(Served([Place(tmp_path)], {}, [], check=check), tmp_path)
    with pytest.raises(WorkloadFailed, match="write: osd2: ceph-osd has ended: out of room"):
        steps.run_all()
    assert steps.phases == []


def test_deletes_that_are_left_are_not_asked_for(tmp_path: Path) -> None:
    def asked() -> int:
        raise AssertionError("nobody waits for them")

    deleting = SimpleNamespace(deletes="left", deletes_left=asked, unsettled=asked)
    steps = steps_on(Served([Place(tmp_path)], {}, [], deleting=deleting), tmp_path)
    steps.run_all()
    assert steps.deletes == {}
    assert [phase.span for phase in steps.phases] == [made.span("write", 1.0, 2.0)]


@pytest.mark.parametrize(("deletes", "end_s"), [("charged", 0.0), ("waited", 2.0)])
def test_the_system_says_who_pays_for_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletes: str, end_s: float
) -> None:
    monkeypatch.setattr(between_phases, "_POLL_S", 0.0)
    left = counted(3, 2, 0)
    deleting = SimpleNamespace(deletes=deletes, deletes_left=left, unsettled=counted(1, 0))
    steps = steps_on(Served([Place(tmp_path)], {}, [], deleting=deleting), tmp_path)
    steps.run_all()
    [phase] = steps.phases
    charged_s = steps.deletes["write"].charged_s
    if deletes == "waited":
        assert charged_s is None
        assert phase.span == made.span("write", 1.0, end_s)
    else:
        assert charged_s == pytest.approx(phase.span.seconds - 1.0)
    assert steps.deletes["write"].seconds > 0
