"""`wattiod` on this machine: what it changes, it changes for real and puts back."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from daemon.running import (
    ALL,
    BINARY,
    CPUSET,
    DEADLINE_S,
    IDLE_SHARE,
    Idleness,
    Place,
    Running,
    control_group,
    cpus,
    make_group,
    start,
)

pytestmark = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may write control groups"),
    pytest.mark.skipif(not (CPUSET / "cpuset.cpus").exists(), reason="no cpuset, version 1"),
    pytest.mark.skipif(len(ALL) < 2, reason="one processor leaves nothing to take off"),
    pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it"),
]

CPUSET_KNOB = """
cgroup = "GROUP"
[[knob]]
kind = "cpu.cpuset"
"""
AFFINITY_KNOB = """
processes = { cgroup = "GROUP" }
[[knob]]
kind = "cpu.affinity"
"""
ONLINE_KNOB = """
[[knob]]
kind = "cpu.online"
accept_hotplug = true
"""
SERVER = Path(__file__).with_name("server.py")
ASSUMED_POWER_MODEL = (
    Path(__file__).parents[2] / "crates" / "plant" / "servers" / "assumed-power-model.toml"
)
KILLS = 50
WINDOWS_WATCHED = 12


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with a process in it."""
    with control_group(f"wattio-test-{os.getpid()}") as group:
        process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
        (group / "cgroup.procs").write_text(str(process.pid))
        yield group
        process.kill()
        process.wait()


def configuration(group: Path, rate: Path, policy: str, knobs: str = CPUSET_KNOB) -> str:
    """A configuration whose latency and utilisation come from the playing server."""
    command = [sys.executable, str(SERVER), str(group / "cpuset.cpus"), str(rate)]
    source = f"command = {command}\nuser = 'root'".replace("'", '"')
    return f"""
name = "test"
[policy]
{policy}
[latency]
kind = "exec"
{source}
[cpu]
kind = "exec"
{source}
[[group]]
name = "server"
cores = "{",".join(str(cpu) for cpu in sorted(ALL))}"
{knobs.replace("GROUP", f"/{group.name}")}
[power]
model = "assumed"
[safety]
dwell = "0 s"
"""


HALF = 'name = "fixed"\nsettings = { cores_share = 0.5 }'


@pytest.fixture
def rate(tmp_path: Path) -> Path:
    """The playing server's load."""
    file = tmp_path / "rate"
    file.write_text("2000")
    return file


def held(group: Path) -> tuple[str, ...]:
    """Everything that the knobs may change."""
    processes = (group / "cgroup.procs").read_text().split()
    masks = [str(sorted(os.sched_getaffinity(int(pid)))) for pid in processes]
    online = Path("/sys/devices/system/cpu/online").read_text()
    return (online, (group / "cpuset.cpus").read_text(), *masks)


def test_it_narrows_while_it_runs_and_widens_when_told_to_end(
    tmp_path: Path, group: Path, rate: Path
) -> None:
    before = held(group)
    place = Place(tmp_path, configuration(group, rate, HALF))
    with start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        assert len(cpus((group / "cpuset.cpus").read_text())) == len(ALL) // 2
        assert place.snapshot.exists(), "the old value was on disk before the first write"
        assert place.status()["groups"][0]["cores_active"] == len(ALL) // 2
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
    assert held(group) == before
    assert not place.snapshot.exists()


def test_shadow_mode_writes_nothing(tmp_path: Path, group: Path, rate: Path) -> None:
    before = held(group)
    place = Place(tmp_path, configuration(group, rate, HALF))
    with start("observe", place) as daemon:
        place.wait_until(lambda status: status["counts"]["requests"] > 0)
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
    assert held(group) == before
    assert not (tmp_path / "state").exists()
    assert any("estimate" in line for line in daemon.log)


PACER = 'name = "pacer"\nsettings = { plf = 0.2, requests_min = 20 }'
QUICK = """name = "pacer"
settings = { plf = 0.2, requests_min = 20, window = "0.05 s", windows = 2 }"""
QUIET, BUSY = "2000", "20000"


@contextmanager
def kept_busy(cpus: set[int]) -> Iterator[None]:
    """Somebody else's work on these processors."""
    loop = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    command = [sys.executable, "-c", loop]
    others = [subprocess.Popen([*command, str(cpu)]) for cpu in sorted(cpus)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_cores_that_others_keep_busy_are_no_saving(tmp_path: Path, group: Path, rate: Path) -> None:
    """They counted as idle, and a saving was told where every core was in use."""
    place = Place(tmp_path, configuration(group, rate, HALF))
    with start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        left = set(ALL) - cpus((group / "cpuset.cpus").read_text())
        with kept_busy(left):
            windows = place.status()["counts"]["windows"]
            place.wait_for_windows(windows + WINDOWS_WATCHED)
            power = place.status()["power"]
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
    assert saved_w(power) < 0.5 * idle_w() * len(left)


def test_shadow_mode_knows_who_else_is_busy(tmp_path: Path, group: Path, rate: Path) -> None:
    """Cores that would be left to others counted as idle."""
    place = Place(tmp_path, configuration(group, rate, HALF))
    with start("observe", place) as daemon:
        place.wait_until(lambda status: status["power"]["estimated_w"] is not None)
        left = len(ALL) - len(ALL) // 2
        with kept_busy(set(ALL)):
            place.wait_until(lambda status: saved_w(status["power"]) < 0.5 * idle_w() * left)
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log


def saved_w(power: dict[str, Any]) -> float:
    """By the estimate, in the last window; all of it where there is none."""
    if power["estimated_w"] is None:
        return float("inf")
    return float(power["estimated_full_speed_w"] - power["estimated_w"])


def idle_w() -> float:
    """What a core that idles draws at full speed, by the model."""
    assumed = tomllib.loads(ASSUMED_POWER_MODEL.read_text())
    return float(assumed["core"]["watts"] + assumed["core_frequency"]["watts"])


def wait_until(reached: Callable[[], bool]) -> None:
    """Look until it is so. Fails after a minute."""
    deadline, never = time.monotonic() + DEADLINE_S, threading.Event()
    while not reached():
        assert time.monotonic() < deadline
        never.wait(0.002)


class Cycle:
    """A daemon that narrows, widens and reloads as its load and signals ask for."""

    def __init__(self, daemon: Running, group: Path, rate: Path, wide: tuple[str, ...]) -> None:
        self._daemon, self._group, self._rate, self._wide = daemon, group, rate, wide

    def _is_wide(self) -> bool:
        return held(self._group) == self._wide

    def start(self) -> None:
        """What comes next is the first narrowing."""

    def load_rises(self) -> None:
        """What comes next is a widening."""
        wait_until(lambda: not self._is_wide())
        self._rate.write_text(BUSY)

    def load_falls(self) -> None:
        """What comes next is a narrowing."""
        self.load_rises()
        wait_until(self._is_wide)
        self._rate.write_text(QUIET)

    def reload(self) -> None:
        """What comes next is a restore."""
        wait_until(lambda: not self._is_wide())
        self._daemon.send(signal.SIGHUP)

    def reloaded(self) -> None:
        """What comes next is the first narrowing of a law that learns anew."""
        self.reload()
        self._daemon.wait_for("configuration reloaded")

    def killed_while_narrow(self, after_s: float) -> bool:
        """Kill; whether something was narrow then."""
        with suppress(subprocess.TimeoutExpired):
            self._daemon.process.wait(timeout=after_s)
        self._daemon.send(signal.SIGKILL).end()
        return not self._is_wide()


# When the change that comes next is due: the writes take a few ms to 60.
STAGES: list[tuple[Callable[[Cycle], None], tuple[float, float]]] = [
    (Cycle.start, (0.3, 0.7)),
    (Cycle.load_rises, (0.0, 0.3)),
    (Cycle.load_falls, (0.1, 0.6)),
    (Cycle.reload, (0.0, 0.25)),
    (Cycle.reloaded, (0.1, 0.5)),
]


@pytest.mark.parametrize(
    "knobs",
    [CPUSET_KNOB + ONLINE_KNOB, AFFINITY_KNOB + ONLINE_KNOB],
    ids=["cpuset, online", "affinity, online"],
)
def test_a_kill_at_any_moment_leaves_what_restore_puts_back(
    tmp_path: Path, group: Path, rate: Path, knobs: str
) -> None:
    before = held(group)
    place = Place(tmp_path, configuration(group, rate, QUICK, knobs), keeper=False)
    dice = random.Random(7)
    narrow: list[bool] = []
    caught = 0
    for kill in range(KILLS // 2):
        rate.write_text(QUIET)
        reach, span_s = STAGES[kill % len(STAGES)]
        with start("run", place) as daemon:
            cycle = Cycle(daemon, group, rate, before)
            reach(cycle)
            narrow.append(cycle.killed_while_narrow(dice.uniform(*span_s)))
            caught += place.snapshot.exists()
            place.restore()
        assert held(group) == before, reach.__name__
        assert not place.snapshot.exists()
    assert caught > KILLS // 5, "after the first write"
    assert min(narrow.count(True), narrow.count(False)) > 2, "on both sides of the changes"


def wait_until_back(place: Place, group: Path, before: tuple[str, ...]) -> None:
    """Look until everything is as it was. Fails after a minute."""
    deadline = time.monotonic() + DEADLINE_S
    while place.snapshot.exists() or held(group) != before:
        assert time.monotonic() < deadline, held(group)
        time.sleep(0.01)


@pytest.mark.parametrize(
    "knobs", [CPUSET_KNOB + ONLINE_KNOB, AFFINITY_KNOB], ids=["cpuset, online", "affinity"]
)
@pytest.mark.parametrize("number", ["SIGKILL", "SIGABRT", "SIGUSR1", "SIGSTOP"])
def test_whatever_ends_the_daemon_its_keeper_puts_everything_back(
    tmp_path: Path, group: Path, rate: Path, knobs: str, number: str
) -> None:
    """SIGABRT and SIGUSR1 left the host narrow until somebody ran `restore`; so did SIGSTOP."""
    before = held(group)
    place = Place(tmp_path, configuration(group, rate, HALF, knobs))
    with start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        assert held(group) != before
        daemon.send(getattr(signal, number))
        wait_until_back(place, group, before)
        ended_by = "SIGKILL" if number == "SIGSTOP" else number
        assert daemon.end() == -getattr(signal, ended_by)
    assert any("restored" in line for line in daemon.log), daemon.log
    assert any("is stopped by a signal" in line for line in daemon.log) == (number == "SIGSTOP")


def keepers(daemon: Running) -> list[int]:
    """The keepers of a daemon: one, but while it is replaced."""
    children = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children")
    found = [int(pid) for pid in children.read_text().split()]
    names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in found}
    return [pid for pid, name in names.items() if name == "wattiod-keeper"]


def test_a_keeper_sleeps_while_its_daemon_is_at_work(
    tmp_path: Path, group: Path, rate: Path
) -> None:
    """It looked twice a second whether the daemon was stopped, which cost as much as a quarter of
    what the daemon did."""
    place = Place(tmp_path, configuration(group, rate, HALF))

    def woken() -> int:
        [keeper] = keepers(daemon)
        status = Path(f"/proc/{keeper}/status").read_text()
        return int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M)[0])

    with start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        before, began = woken(), time.monotonic()
        place.wait_for_windows(place.status()["counts"]["windows"] + WINDOWS_WATCHED)
        looks = (time.monotonic() - began) / 0.5
        # A beat that comes late on a busy machine wakes it, too.
        assert woken() - before < looks / 2
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log


def test_a_keeper_that_is_killed_is_replaced_and_ends_with_its_daemon(
    tmp_path: Path, group: Path, rate: Path
) -> None:
    place = Place(tmp_path, configuration(group, rate, HALF))
    with start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        [keeper] = keepers(daemon)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(keeper, number)
        place.wait_for_windows(place.status()["counts"]["windows"] + 2)
        assert keepers(daemon) == [keeper], "as little as its daemon does it end by a signal to all"
        os.kill(keeper, signal.SIGKILL)
        daemon.wait_for("keeper ended .*SIGKILL.* started again")
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
    assert not any("that was killed" in line for line in daemon.log), "nothing was left to it"


def test_pacer_saves_within_the_bound_and_its_account_is_right(
    tmp_path: Path, group: Path, rate: Path
) -> None:
    before = held(group)
    place = Place(tmp_path, configuration(group, rate, PACER))
    with start("run", place, "--out", str(tmp_path / "results")) as daemon:
        saving = place.wait_until(lambda status: status["groups"][0]["cores_active"] < len(ALL))
        left = Idleness(ALL - cpus((group / "cpuset.cpus").read_text()) or ALL)
        assert saving["state"] == "stable"
        rate.write_text("20000")
        place.wait_until(lambda status: status["state"] == "unstable")
        # A higher level of load is learned anew, at full speed, and then saved at again or not.
        place.wait_until(lambda status: status["state"] == "stable")
        status = place.wait_until(lambda status: status["counts"]["windows_bounded"] > 10)
        idle_share = left.least_share()
        refused = subprocess.run(
            [str(BINARY), "set", "plf", "99", "--socket", str(tmp_path / "socket")],
            capture_output=True,
            text=True,
        )
        assert refused.returncode == 2
        assert "0.001 to 10" in refused.stderr
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
    assert held(group) == before
    saved_j = status["power"]["estimated_full_speed_j"] - status["power"]["estimated_j"]
    # Where others keep the cores busy that were left there is nothing to save.
    assert saved_j > 0 if idle_share > IDLE_SHARE else saved_j >= 0

    windows = place.windows()
    summary = place.summary()["counts"]
    bounded = [
        row
        for earlier, row in itertools.pairwise(windows)
        if earlier["state"] == "stable" and row["bound_us"] and row["latency_us_mean"]
    ]
    broken = [row for row in bounded if row["latency_us_mean"] > row["bound_us"]]
    assert (summary["windows_bounded"], summary["violations"]) == (len(bounded), len(broken))
    assert summary["windows"] == len(windows)
    assert summary["requests"] == sum(row["requests"] or 0 for row in windows)
    latency = sum(row["latency_us_mean"] * row["requests"] for row in bounded)
    baseline = sum(row["baseline_us"] * row["requests"] for row in bounded)
    assert summary["loss_mean"] == pytest.approx(latency / baseline - 1.0, rel=1e-9)
    assert summary["loss_mean"] < 0.2, "the bound holds over the run"


def test_a_pause_is_full_speed_and_a_reload_takes_a_valid_file_only(
    tmp_path: Path, group: Path, rate: Path
) -> None:
    place = Place(tmp_path, configuration(group, rate, HALF))
    socket = ["--socket", str(tmp_path / "socket")]
    with start("run", place) as daemon:
        half = place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        subprocess.run([str(BINARY), "pause", *socket], check=True, capture_output=True)
        place.wait_until(lambda status: status["groups"][0]["cores_active"] == len(ALL))
        assert cpus((group / "cpuset.cpus").read_text()) == ALL
        subprocess.run([str(BINARY), "resume", *socket], check=True, capture_output=True)
        narrow = half["groups"][0]["cores_active"]
        place.wait_until(lambda status: status["groups"][0]["cores_active"] == narrow)

        text = place.config.read_text()
        place.config.write_text(text.replace("cores_share", "coers_share"))
        daemon.send(signal.SIGHUP).wait_for("not reloaded.*coers_share")
        assert place.status()["policy"] == "fixed"
        place.config.write_text(text.replace(HALF, 'name = "native"'))
        daemon.send(signal.SIGHUP).wait_for("configuration reloaded")
        assert place.status()["policy"] == "native"
        assert cpus((group / "cpuset.cpus").read_text()) == ALL
        assert daemon.send(signal.SIGINT).end() == 0, daemon.log


def test_a_reload_while_the_service_is_down_leaves_all_as_it_was(
    tmp_path: Path, group: Path, rate: Path
) -> None:
    """The daemon ended for good: the old configuration could not start either."""
    place = Place(tmp_path, configuration(group, rate, HALF))
    set_of_group = group / "cpuset.cpus"
    with start("run", place) as daemon:
        begun = place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        every, narrow = sorted(ALL), set_of_group.read_text()
        first = begun["counts"]["knob_writes"]

        def is_held_anew(status: dict[str, Any]) -> bool:
            """Its counts go on; the set may be narrow up to a second before a status says so."""
            return status["counts"]["knob_writes"] > first and set_of_group.read_text() == narrow

        with restarted(group, ",".join(map(str, every)), while_down=lambda: refused(daemon)):
            place.wait_until(is_held_anew)
            daemon.send(signal.SIGHUP).wait_for("configuration reloaded")
            place.wait_until(lambda _: set_of_group.read_text() == narrow)
            assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
            assert cpus(set_of_group.read_text()) == ALL


def refused(daemon: Running) -> None:
    """Ask for a reload, which is refused."""
    why = daemon.send(signal.SIGHUP).wait_for("not reloaded")
    assert "the old configuration stays in force" in why
    assert "is not there" in why


def test_only_one_daemon_acts(tmp_path: Path, group: Path, rate: Path) -> None:
    place = Place(tmp_path, configuration(group, rate, HALF))
    with start("run", place) as first:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        second = subprocess.run(
            [str(BINARY), "run", str(place.config)], capture_output=True, text=True, timeout=60
        )
        assert second.returncode == 1
        assert "another wattio acts" in second.stderr
        other = tmp_path / "other"
        other.mkdir()
        elsewhere = Place(other, configuration(group, rate, HALF))
        third = subprocess.run(
            [str(BINARY), "run", str(elsewhere.config)], capture_output=True, text=True, timeout=60
        )
        # It would take the first one's setting for the old value.
        assert third.returncode == 1
        assert "another wattio acts" in third.stderr
        assert f"process {first.process.pid}: " in third.stderr
        # As systemd does with a unit's RuntimeDirectory= when the unit stops.
        shutil.rmtree("/run/wattiod")
        fourth = subprocess.run(
            [str(BINARY), "run", str(elsewhere.config)], capture_output=True, text=True, timeout=60
        )
        assert fourth.returncode == 1
        assert "another wattio acts" in fourth.stderr
        restore = subprocess.run(
            [str(BINARY), "restore", str(place.config)], capture_output=True, text=True, timeout=60
        )
        assert restore.returncode == 1
        assert "another wattio acts" in restore.stderr
        assert len(cpus((group / "cpuset.cpus").read_text())) == len(ALL) // 2
        assert first.send(signal.SIGTERM).end() == 0


def test_somebody_elses_change_is_left_alone(tmp_path: Path, group: Path, rate: Path) -> None:
    place = Place(tmp_path, configuration(group, rate, HALF))
    with start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        mine = str(max(ALL))
        (group / "cpuset.cpus").write_text(mine)
        daemon.wait_for("somebody else")
        power = place.wait_until(lambda status: status["power"]["no_estimate"])["power"]
        assert "somebody else" in power["no_estimate"]
        assert "estimated_w" not in power or power["estimated_w"] is None
        assert daemon.send(signal.SIGTERM).end() == 0
    assert (group / "cpuset.cpus").read_text().strip() == mine


@contextmanager
def restarted(
    group: Path, own: str, while_down: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """End the service of a control group and start it again, in a new one with processors `own`."""
    for pid in (group / "cgroup.procs").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        os.sched_yield()
    group.rmdir()
    try:
        while_down()
    finally:
        make_group(group, own)
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    (group / "cgroup.procs").write_text(str(process.pid))
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def test_a_service_that_restarts_is_held_anew(tmp_path: Path, group: Path, rate: Path) -> None:
    place = Place(tmp_path, configuration(group, rate, HALF))
    set_of_group = group / "cpuset.cpus"
    every, last = set_of_group.read_text(), f"{max(ALL)}\n"

    def held_by_snapshot() -> list[str]:
        return [saved["value"] for saved in json.loads(place.snapshot.read_text())["saved"]]

    with start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] == 1)
        narrow = set_of_group.read_text()
        assert cpus(narrow) != ALL
        with restarted(group, last):
            place.wait_until(lambda status: status["counts"]["knob_writes"] == 2)
            assert set_of_group.read_text() == narrow
            assert held_by_snapshot() == [last.strip()]
            with restarted(group, every):
                place.wait_until(lambda status: status["counts"]["knob_writes"] == 3)
                assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
                assert set_of_group.read_text() == every, "its own old value"
    assert not any("somebody else" in line for line in daemon.log), daemon.log
    assert not place.snapshot.exists()


def test_what_a_killed_daemon_held_of_an_old_service_is_not_put_on_the_new_one(
    tmp_path: Path, group: Path, rate: Path
) -> None:
    place = Place(tmp_path, configuration(group, rate, HALF), keeper=False)
    with start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] == 1)
        daemon.send(signal.SIGKILL).end()
        assert place.snapshot.exists()
        with restarted(group, f"{max(ALL)}"):
            assert place.restore() == {"restored": [], "foreign": [], "left": []}
            assert (group / "cpuset.cpus").read_text() == f"{max(ALL)}\n"
        assert not place.snapshot.exists()
