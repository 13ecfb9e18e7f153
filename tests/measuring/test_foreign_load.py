"""Processor time of others, on processes that are made up below a root folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from wattio.clock import Instant
from wattio.kinds.measurement import foreign_load, record, verdicts
from wattio.kinds.measurement.foreign_load import Look, Others
from wattio.kinds.measurement.schema import Rules
from wattio.knobs.texts import here
from wattio.results.runs import Verdict

from measuring import made

TICKS = os.sysconf("SC_CLK_TCK")
HERE, WORK, RANK, SERVER, FORK, KERNEL, STRANGER = 100, 110, 111, 50, 51, 9, 70
KERNEL_FLAG = 0x00200000


class Machine:
    """A /proc of two cores; processes have ticks of their own and of children they waited for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.busy = 1000
        self.processes: dict[int, tuple[int, int, int, int]] = {}

    def has(self, pid: int, parent: int, own: int = 0, waited: int = 0, flags: int = 0) -> None:
        self.processes[pid] = (parent, flags, own, waited)

    def look(self, at_s: float, *servers: int) -> Look:
        proc = self.root / "proc"
        shutil.rmtree(proc, ignore_errors=True)
        proc.mkdir(parents=True)
        idle = "5000 60 70 80 0 0 0"
        third = self.busy // 3
        total = f"{third} {third} {self.busy - 2 * third} {idle}"
        lines = [f"cpu  {total}", f"cpu0 1 1 1 {idle}", f"cpu1 1 1 1 {idle}", "intr 1", "ctxt 1"]
        (proc / "stat").write_text("\n".join(lines) + "\n")
        for pid, (parent, flags, own, waited) in self.processes.items():
            (proc / str(pid)).mkdir()
            # User and system time are apart; so are those of children.
            ticks = f"{own - own // 2} {own // 2} {waited} 0"
            text = f"{pid} (a) (b c) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 20 0 1 0 {pid * 7}"
            (proc / str(pid) / "stat").write_text(f"{text} 0 0\n")
        found = foreign_load.look(here(self.root), (HERE, *servers))
        assert found is not None
        return replace(found, at=Instant(0, round(at_s * 1e9)))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made_up = Machine(tmp_path)
    made_up.has(1, 0, own=10)
    made_up.has(HERE, 1, own=40)
    made_up.has(SERVER, 1, own=500)
    made_up.has(KERNEL, 2, own=300, flags=KERNEL_FLAG)
    made_up.has(STRANGER, 1, own=700)
    return made_up


def taken(before: Look, after: Look) -> Others:
    found = foreign_load.between(before, after)
    assert found is not None
    return found


def test_what_is_ours_is_not_that_of_others(machine: Machine) -> None:
    before = machine.look(0.0, SERVER)
    machine.has(HERE, 1, own=45)
    machine.has(WORK, HERE, own=20, waited=30)
    machine.has(RANK, WORK, own=60)
    machine.has(SERVER, 1, own=540)
    machine.has(FORK, SERVER, own=15)
    machine.has(KERNEL, 2, own=325, flags=KERNEL_FLAG)
    machine.has(STRANGER, 1, own=787)
    machine.busy += 5 + 20 + 30 + 60 + 40 + 15 + 25 + 87
    found = taken(before, machine.look(10.0, SERVER))
    assert found == Others(core_s=87 / TICKS, cores=2, seconds=10.0)
    assert found.share == pytest.approx(87 / TICKS / 20)


def test_a_server_that_nobody_named_is_another(machine: Machine) -> None:
    before = machine.look(0.0)
    machine.has(SERVER, 1, own=540)
    machine.busy += 40
    assert taken(before, machine.look(1.0)).core_s == 40 / TICKS


def test_a_child_that_ends_hands_its_time_on_and_is_not_counted_twice(machine: Machine) -> None:
    machine.has(WORK, HERE, own=200)
    before = machine.look(0.0)
    del machine.processes[WORK]
    machine.has(HERE, 1, own=40, waited=230)
    machine.busy += 30
    assert taken(before, machine.look(1.0)).core_s == 0


def test_a_stranger_that_came_and_went_between_is_seen(machine: Machine) -> None:
    before = machine.look(0.0)
    machine.busy += 64
    assert taken(before, machine.look(1.0)).core_s == 64 / TICKS


def test_a_kernel_thread_that_ends_gives_nothing_back(machine: Machine) -> None:
    before = machine.look(0.0)
    del machine.processes[KERNEL]
    machine.busy += 7
    assert taken(before, machine.look(1.0)).core_s == 7 / TICKS


def test_a_number_that_now_is_another_thread_does_not_owe_the_old_ones_time(
    machine: Machine,
) -> None:
    before = machine.look(0.0)
    before = replace(before, kernel={(KERNEL, 1): 300})
    machine.has(KERNEL, 2, own=6, flags=KERNEL_FLAG)
    machine.busy += 6
    assert taken(before, machine.look(1.0)).core_s == 0


def test_more_of_ours_than_the_machine_was_busy_is_nothing_of_others(machine: Machine) -> None:
    before = machine.look(0.0)
    machine.has(HERE, 1, own=90)
    machine.busy += 48
    assert taken(before, machine.look(1.0)).core_s == 0


@pytest.mark.parametrize("text", ["", "cpu  1 2\ncpu0 1 2\n", "cpu  a b c d\n", "intr 0\n"])
def test_what_the_kernel_does_not_tell_is_absent(machine: Machine, text: str) -> None:
    before = machine.look(0.0)
    (machine.root / "proc/stat").write_text(text)
    assert foreign_load.look(here(machine.root), [HERE]) is None
    assert foreign_load.between(before, None) is None


def test_this_machine_is_read_and_a_child_is_ours() -> None:
    before = foreign_load.look(here(), [os.getpid()])
    subprocess.run(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"], check=True)
    after = foreign_load.look(here(), [os.getpid()])
    assert before is not None
    assert after is not None
    assert after.ours > before.ours
    assert after.cores == os.cpu_count()
    found = foreign_load.between(before, after)
    assert found is not None
    assert 0 <= found.share <= 1


@pytest.mark.parametrize(
    ("core_s", "expected"),
    [
        (4.0, []),  # 2 % of two cores for a hundred seconds
        (
            16.4,
            [
                Verdict(
                    "WARN",
                    "BUSY: idle: other processes took 16.4 core-seconds, 8.2 % of this machine's"
                    " 2 cores",
                )
            ],
        ),
    ],
)
def test_more_than_the_rules_allow_is_a_warning(core_s: float, expected: list[Verdict]) -> None:
    found = made.record(
        made.span("idle", 0.0, 100.0), others={"idle": Others(core_s, cores=2, seconds=100.0)}
    )
    assert verdicts.of_record(found, [], Rules()) == expected
    assert verdicts.of_record(found, [], Rules(others_share_max=0.1)) == []


def test_it_is_kept_with_the_record_and_older_records_have_none(tmp_path: Path) -> None:
    phase = made.span("write", 0.0, 10.0)
    told = {"write": Others(1.5, cores=4, seconds=10.25)}
    made.record(phase, others=told).write(tmp_path)
    assert record.read(tmp_path).others == told
    file = tmp_path / record.FILE
    kept = file.read_text()
    start = kept.index(' "others"')
    file.write_text(kept[:start] + kept[kept.index(' "failure"') :])
    assert record.read(tmp_path).others == {}
