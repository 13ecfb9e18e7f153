"""A result folder made up for tests: iterations, phases and power that follow from a formula.

What the catalog holds is derived by the code that derives a real one, so that verdicts and metrics
are what a study with these samples would get.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from wattio.analysis.cores import Spent, as_plain
from wattio.clock import Span
from wattio.files import document
from wattio.kinds.measurement import derive, record
from wattio.kinds.measurement import plan as planning
from wattio.kinds.measurement.derive import Rulebook, View
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.plan import MeasurementPlan, Measuring
from wattio.kinds.measurement.schema import IDLE
from wattio.kinds.measurement.system_status import Answer
from wattio.knobs.knobs import hertz
from wattio.meters import open_meter, parquet
from wattio.meters.meter import Facts
from wattio.recording import Event, Samples
from wattio.results.runs import Recorded
from wattio.workloads.workload import Operation

from .made import instant, samples, span

MIB = 1 << 20
NAME = "20270115T080000Z-0000000"

STUDY = """\
[study]
name = "made"
kind = "measurement"
description = "Two servers & <b>three</b> numbers of clients"
repetitions = 3
clients = [1, 2, 4]
order = "sequential"
peak = "peak.toml"

[[system]]
name = "left"
kind = "local"
options = { path = "/" }
[[system]]
name = "right"
kind = "local"
options = { path = "/" }

[[workload]]
name = "sequential"
kind = "fio"
options = { jobs = [{ name = "write", rw = "write", bs = "4 MiB", size = "4 GiB" }] }
[[workload]]
name = "random"
kind = "fio"
options = { jobs = [{ name = "randread", rw = "randread", bs = "4 KiB", size = "4 GiB" }] }

[[meter]]
name = "snmp://public@pdu/apc-rpdu2?outlet=3"
label = "pdu"
covers = ["server", "switch"]
accuracy_class = "1 %"
[[meter]]
name = "estimate:assumed"
label = "model"
covers = ["server"]
role = "beside"

[[subtract]]
device = "switch"
power = "15.46 W"
source = "its mean over an idle hour"
"""

PEAK = """\
[peak]
name = "made"
rule = "thesis"
[[part]]
kind = "disk"
origin = "assumed"
how = "made up"
read_throughput_mib_s = { mean = 900.0 }
write_throughput_mib_s = { mean = 800.0 }
read_iops = { mean = 60000.0 }
write_iops = { mean = 40000.0 }
"""


@dataclass(frozen=True)
class Work:
    """A phase of a workload: how much it does with each client, how fast, at which power.

    Where `timed` is set it lasts so long, and does what it can; else it does its `operations`.
    Where `server_us` is set a server takes so much for each operation; the right one half of it.
    With `scales`, rate and power follow the frequency of a condition: the rate by its root, power
    by its cube, so that the least energy lies between the ends.
    """

    phase: str
    operation: str
    operation_bytes: int
    operations: int
    rate: float
    power_w: float
    timed: float | None = None
    server_us: float | None = None
    scales: bool = False


WORKS: Mapping[str, Sequence[Work]] = {
    "sequential": [
        Work("write", "write", 4 * MIB, 5000, 60.0, 92.0),
        Work("read", "read", 4 * MIB, 5000, 75.0, 84.0),
    ],
    "random": [Work("randread", "read", 4096, 0, 9000.0, 78.0, timed=80.0)],
}

Break = tuple[str, int, int]
"""Name of a run, number of the repetition, number of the attempt; from 0."""


def write(
    results: Path,
    study: str = STUDY,
    works: Mapping[str, Sequence[Work]] = WORKS,
    gaps: Iterable[Break] = (),
    failures: Iterable[Break] = (),
    estimate_only: bool = False,
    ran: float | None = None,
    nodes: int = 0,
    busy: Mapping[str, float] | None = None,
) -> Path:
    """Make a folder. Attempts with a gap have one in the PDU's samples; failures ran to no end.

    Where `ran` is set, cores ran at this share of the frequency that a condition asks for. With
    `nodes` there are meters `node1` and so on; the first draws the whole power over the number of
    nodes, the next twice that, and so on.
    """
    results.mkdir(parents=True, exist_ok=True)
    (results / "study.toml").write_text(study, encoding="utf-8")
    (results / "peak.toml").write_text(PEAK, encoding="utf-8")
    plan = planning.make(document.read(results / "study.toml"))
    made = MeasurementFolder.create(plan, results, datetime(2027, 1, 15, 8, tzinfo=UTC))
    path = made.path.rename(made.path.with_name(NAME))
    _write_machine(path, plan)
    folder = MeasurementFolder(path)
    facts = facts_of(estimate_only=estimate_only) if not nodes else facts_of_nodes(nodes)
    if busy is not None:
        facts["model"] = replace(facts["model"], model=open_meter("estimate:assumed").facts.model)
    told = _Story(plan, works, set(gaps), set(failures), facts)
    told.tell()
    recorded = told.recorded()
    parquet.write(path / "samples" / "0001.parquet", recorded)
    _write_events(path / "samples" / "0001.events.jsonl", told.lost)
    book = Rulebook.of_folder(folder)
    view = View(told.facts, recorded, book)
    catalog = folder.catalog()
    for iteration, entry, operations in told.entries:
        folder.raw(entry.identity).mkdir()
        entry.write(folder.raw(entry.identity))
        looks = {} if ran is None else _looks(iteration, entry, ran)
        cores = {} if busy is None else _core_looks(entry, busy.get(iteration.run.system, 0.0))
        read = derive.Results(tuple(operations), frequencies=looks, cores=cores)
        found = derive.derive(entry, read, view, book)
        catalog.add(_recorded(iteration, found), found.phases, "measurement")
    catalog.close()
    return path


def _looks(iteration: Measuring, entry: record.Record, ran: float) -> dict[str, list[Answer]]:
    """What the cores ran at in the middle of each step."""
    if iteration.cell is None:
        return {}
    khz = round(ran * _share_of_full_speed(iteration.cell) * FULL_HZ / 1e3)
    found = {}
    for phase in entry.phases:
        middle_ns = (phase.span.start.monotonic_ns + phase.span.end.monotonic_ns) / 2
        found[phase.step] = [Answer(instant(middle_ns / 1e9), {"khz": [khz, khz]})]
    return found


def _core_looks(entry: record.Record, busy: float) -> dict[str, list[Answer]]:
    """What two cores did until the start and the end of each phase."""
    found = {}
    for phase in entry.phases:
        ends = []
        for at, seconds in ((phase.span.start, 0.0), (phase.span.end, phase.span.seconds)):
            own_s = busy * seconds
            spent = Spent(
                seconds=seconds,
                on_s=2 * seconds,
                busy_s=own_s,
                idle_s=2 * seconds - own_s,
                on_scaled_s=2 * seconds,
                awake_scaled_s=own_s,
                states_s={"C6": seconds},
            )
            ends.append(Answer(at, as_plain(spent)))
        found[phase.step] = ends
    return found


def facts_of(*, estimate_only: bool) -> dict[str, Facts]:
    model = Facts("estimate:assumed", "a model", 0.5, accuracy_class="estimate", estimate=True)
    if estimate_only:
        return {"model": model}
    pdu = Facts("snmp://pdu/apc-rpdu2?outlet=3", "a PDU", 0.5, 0.1, "1 %")
    return {"pdu": pdu, "model": model}


def facts_of_nodes(count: int) -> dict[str, Facts]:
    return {
        f"node{number}": Facts(f"snmp://pdu/apc-rpdu2?outlet={number}", "a PDU", 0.5, 0.1, "1 %")
        for number in range(1, count + 1)
    }


def of_nodes(study: str, count: int) -> str:
    """The same study with a total for each node instead of its meters."""
    head, _, rest = study.partition("[[meter]]")
    meters = "".join(
        f'[[meter]]\nname = "snmp://public@pdu/apc-rpdu2?outlet={number}"\n'
        f'label = "node{number}"\ncovers = ["server {number}"]\n'
        for number in range(1, count + 1)
    )
    knobs = rest[rest.index("[[knob]]") :] if "[[knob]]" in rest else ""
    return head + meters + knobs


def _write_machine(path: Path, plan: MeasurementPlan) -> None:
    """Facts that are the same on every machine."""
    facts = json.loads((path / "machine.json").read_text(encoding="utf-8"))
    facts |= {
        "processor": "Test CPU",
        "architecture": "x86_64",
        "cores": 2,
        "memory_bytes": 8 << 30,
        "kernel": "Linux 6.1",
        "python": "3.11",
        "wattio": "0.1.0",
        "libraries": {"duckdb": "1.4"},
        "git_commit": None,
        "study_file": "/studies/study.toml",
        "plan": [iteration.identity for iteration in plan.iterations],
    }
    (path / "machine.json").write_text(json.dumps(facts), encoding="utf-8")


def _write_events(path: Path, lost: Sequence[tuple[float, float]]) -> None:
    events = [
        Event("pdu", instant(at_s), kind, text)
        for start_s, end_s in lost
        for at_s, kind, text in (
            (start_s, "lost", "no answer from <pdu>"),
            (end_s, "back", f"answers again after {end_s - start_s:g} s"),
        )
    ]
    lines = [
        {"label": one.label, "at": list(one.at), "kind": one.kind, "text": one.text}
        for one in events
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _recorded(iteration: Measuring, found: derive.Derived) -> Recorded:
    return Recorded(
        identity=iteration.identity,
        run=iteration.run,
        seed=1,
        repetition=iteration.repetition,
        derived_seed=1,
        verdicts=tuple(found.verdicts),
        by_phase=found.by_phase,
        attempt=iteration.attempt,
    )


class _Story:
    """Iterations one after the other, and the power of each moment."""

    def __init__(
        self,
        plan: MeasurementPlan,
        works: Mapping[str, Sequence[Work]],
        gaps: set[Break],
        failures: set[Break],
        facts: dict[str, Facts],
    ) -> None:
        self.facts = facts
        self.entries: list[tuple[Measuring, record.Record, list[Operation]]] = []
        self.lost: list[tuple[float, float]] = []
        self._plan, self._works, self._gaps, self._failures = plan, works, gaps, failures
        self._at_s = 100.0
        self._steps: list[tuple[float, float]] = [(0.0, 60.0)]

    def tell(self) -> None:
        for first in self._plan.iterations:
            iteration = first
            while self._one(iteration) and iteration.attempt < 1:
                iteration = self._plan.again(iteration)

    def recorded(self) -> dict[str, Samples]:
        """Samples of both meters, to half a minute after the end."""
        starts_s, levels_w = (np.array(part) for part in zip(*self._steps, strict=True))

        def power_w(times_s: np.ndarray) -> np.ndarray:
            level = levels_w[np.searchsorted(starts_s, times_s, "right") - 1]
            course_w = level + 2 * np.sin(times_s) + np.sin(times_s / 7)
            return np.asarray(np.round(course_w, 1), dtype=float)

        found = {}
        for label, facts in self.facts.items():
            times_s = np.arange(90.0, self._at_s + 30, facts.period_s)
            if label in ("pdu", "node1"):
                for start_s, end_s in self.lost:
                    times_s = times_s[(times_s <= start_s) | (times_s >= end_s)]
            watts = (0.8 if facts.estimate else 1.0) * power_w(times_s)
            if label.startswith("node"):
                watts = watts * int(label.removeprefix("node")) / len(self.facts)
            found[label] = samples(times_s, lambda _, watts=watts: watts)  # type: ignore[misc]
        return found

    def _one(self, iteration: Measuring) -> bool:
        """Tell an iteration; whether it went wrong."""
        place = iteration.run.name, iteration.repetition, iteration.attempt
        start_s = self._at_s
        phases: list[Span] = []
        operations: list[Operation] = []
        accounts: dict[str, record.Account] = {}
        if iteration.cell is None:
            phases.append(self._phase(IDLE, 60.0, 60.0))
        else:
            for work in self._works[iteration.run.subject]:
                phases.append(self._work(work, iteration, operations))
                if work.server_us is not None:
                    accounts[work.phase] = _account(work, iteration, operations[-1])
        if place in self._gaps:
            middle_s = (phases[0].start.monotonic_ns + phases[0].end.monotonic_ns) / 2e9
            self.lost.append((middle_s, middle_s + 12.0))
        failed = place in self._failures
        self._at_s += 2.0
        entry = record.Record(
            identity=iteration.identity,
            session="0001",
            module=None if iteration.cell is None else "fio",
            attempt=iteration.attempt,
            start=instant(start_s),
            end=instant(self._at_s),
            phases=tuple(record.Phase(phase.name, phase) for phase in phases),
            meters=self.facts,
            system={"file_system": "ext4", "raw_capacity_bytes": 4 * 10**12},
            workload={"fio_version": "fio-3.33", "job": "[write]\nrw=write\nbs=4194304\nsize=1\n"},
            caches_dropped=True,
            failure="fio ended with 1" if failed else None,
            accounts=accounts,
        )
        self.entries.append((iteration, entry, [] if failed else operations))
        return failed or place in self._gaps

    def _work(self, work: Work, iteration: Measuring, operations: list[Operation]) -> Span:
        """A phase: more clients are faster up to a point, the right server is better."""
        assert iteration.cell is not None
        clients = iteration.cell.clients
        right = iteration.run.system == "right"
        wobble = 1 + 0.01 * ((7 * iteration.repetition + 3 * clients + 2 * right) % 5 - 2)
        rate = work.rate * (clients**0.6) * (1.15 if right else 1.0) * wobble
        share = _share_of_full_speed(iteration.cell) if work.scales else 1.0
        rate *= share**0.5
        done = work.operations * clients
        if work.timed is not None:
            done = round(rate * work.timed)
        seconds = done / rate
        power_w = work.power_w + 4 * clients - (3 if right else 0)
        if work.scales:
            power_w += 60.0 * share**3
        phase = self._phase(work.phase, seconds, power_w)
        content: dict[str, Any] = {
            "seconds": seconds,
            "bytes": done * work.operation_bytes,
            "operations": done,
            "throughput_mib_s": rate * work.operation_bytes / MIB,
            "iops": rate,
            "latency_us": {"mean": 1e6 * clients / rate, "p99": 4e6 * clients / rate},
        }
        operations.append(Operation(work.operation, work.phase, **content))
        return phase

    def _phase(self, name: str, seconds: float, power_w: float) -> Span:
        """A phase begins three seconds from now; the server is idle before and after."""
        start_s = self._at_s + 3.0
        self._at_s = start_s + seconds
        self._steps += [(start_s, power_w), (self._at_s, 60.0)]
        return span(name, start_s, self._at_s)


FULL_HZ = 3.6e9


def _share_of_full_speed(cell: planning.Cell) -> float:
    """The frequency that a condition sets, as a share of 3.6 GHz."""
    return next(hertz(value) / FULL_HZ for name, value in cell.knobs.items() if "freq" in name)


def _account(work: Work, iteration: Measuring, done: Operation) -> record.Account:
    assert work.server_us is not None
    assert done.operations is not None
    assert done.seconds is not None
    each_us = work.server_us * (0.5 if iteration.run.system == "right" else 1.0)
    wobble = 1 + 0.01 * iteration.repetition
    return record.Account(1e-6 * each_us * wobble * done.operations, done.seconds)


def only_estimate(study: str) -> str:
    """The same study without the PDU."""
    before, _, rest = study.partition('[[meter]]\nname = "snmp')
    after = rest.partition("[[meter]]\n")[2]
    after = after.replace('role = "beside"\n', "").replace('["server"]', '["server", "switch"]')
    return f"{before}[[meter]]\n{after}"


def smaller(study: str, **changes: object) -> str:
    """The same study with other values of keys that stand on a line of their own."""
    lines = study.splitlines()
    for key, value in changes.items():
        lines = [f"{key} = {value}" if line.startswith(f"{key} = ") else line for line in lines]
    return "\n".join(lines) + "\n"


SERVED = only_estimate(smaller(STUDY, repetitions=3, clients="[1]"))
for _before, _after in (
    ('name = "right"', 'name = "right"\nrole = "own"'),
    ("[[workload]]", '[[system]]\nname = "floor"\nkind = "local"\nrole = "beside"\n\n[[workload]]'),
):
    SERVED = SERVED.replace(_before, _after, 1)
SERVED = SERVED[: SERVED.index("[[workload]]")] + SERVED[SERVED.rindex("[[workload]]") :]
"""Three systems, one workload: a peer, one of our own, and a limit that stands beside them."""
