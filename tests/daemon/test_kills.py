"""A `wattiod` that is killed while it moves the threads of a process."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.running import ALL, BINARY, DEADLINE_S, Place, start

pytestmark = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may move others' threads"),
    pytest.mark.skipif(len(ALL) < 2, reason="one processor leaves nothing to take off"),
    pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it"),
]

HERE = Path(__file__).parent
# How long after what begins a change the kill comes.
STAGES = {"narrowing": (0.2, 1.2), "widening": (0.0, 1.2), "restoring": (0.0, 0.003)}
SEED = 20261125
CALLS_DRAWN = 60
"""Of the system calls of a restore; `WATTIO_EVERY=1`: all of them, which takes long."""
KILLS_OF_STAGE = 6
KILLS_OF_STAGE_MAX = 60
"""So many, until enough came at the right moment: that is short where the machine is fast."""


def configuration(pid: int, folder: Path) -> str:
    """Half of the processors, for one process."""
    (folder / "cpus").write_text("0")
    (folder / "rate").write_text("2000")
    command = [sys.executable, str(HERE / "server.py"), f"{folder}/cpus", f"{folder}/rate"]
    source = f"command = {command}\nuser = 'root'".replace("'", '"')
    comm = Path(f"/proc/{pid}/comm").read_text().strip()
    return f"""
name = "test"
[policy]
name = "fixed"
settings = {{ cores_share = 0.5 }}
[latency]
kind = "exec"
{source}
[cpu]
kind = "exec"
{source}
[[group]]
name = "server"
cores = "{",".join(str(cpu) for cpu in sorted(ALL))}"
processes = {{ comm = "{comm}" }}
[[knob]]
kind = "cpu.affinity"
[power]
model = "assumed"
[safety]
dwell = "0 s"
"""


@contextmanager
def threads(count: int) -> Iterator[int]:
    """A process of so many threads with a name of its own; its number."""
    command = [sys.executable, str(HERE / "threads.py"), str(count)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.communicate()


def masks(pid: int) -> dict[int, set[int]]:
    """Where each thread may run."""
    tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    return {task: os.sched_getaffinity(task) for task in tasks}


def wait_until_narrow(pid: int) -> None:
    """Look until the main thread was moved. Fails after a minute."""
    deadline = time.monotonic() + DEADLINE_S
    while os.sched_getaffinity(pid) == ALL:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("count", [64, 500])
def test_a_kill_leaves_no_thread_confined_after_restore(
    tmp_path: Path, count: int, stage: str
) -> None:
    """The kill came with some threads put back, and the others were taken for pinned ones."""
    dice = random.Random(count)
    caught = 0
    with threads(count) as pid:
        before = masks(pid)
        assert len(before) == count
        place = Place(tmp_path, configuration(pid, tmp_path), keeper=False)
        for number in range(KILLS_OF_STAGE_MAX):
            if number >= KILLS_OF_STAGE and caught > KILLS_OF_STAGE // 5:
                break
            with start("run", place) as daemon:
                if stage != "narrowing":
                    wait_until_narrow(pid)
                if stage == "widening":
                    pause = [str(BINARY), "pause", "--socket", str(tmp_path / "socket")]
                    subprocess.run(pause, check=True, capture_output=True)
                if stage == "restoring":
                    daemon.send(signal.SIGTERM)
                time.sleep(dice.uniform(*STAGES[stage]))
                daemon.send(signal.SIGKILL).end()
                caught += place.snapshot.exists()
                place.restore()
            assert masks(pid) == before
            assert not place.snapshot.exists()
    assert caught > KILLS_OF_STAGE // 5, "after the first write"


Call = tuple[str, int]
"""A system call by name, and which of its kind it is, from 1."""


def calls_of(command: list[str], log: Path) -> list[Call]:
    """Run a command, and tell all the system calls that it takes, but for the first."""
    traced = ["strace", "-f", "-qq", "-o", str(log), *command]
    subprocess.run(traced, check=True, capture_output=True, timeout=DEADLINE_S)
    names = re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE)
    assert names.pop(0) == "execve"
    seen: Counter[str] = Counter()
    calls = []
    for name in names:
        seen[name] += 1
        calls.append((name, seen[name]))
    return calls


def kill_at(command: list[str], call: Call) -> bool:
    """Run a command, and kill it instead of this call; whether it came to that."""
    name, number = call
    kill = f"inject={name}:signal=SIGKILL:when={number}"
    traced = ["strace", "-f", "-qq", "-e", f"trace={name}", "-e", kill, "-o", "/dev/null"]
    done = subprocess.run([*traced, *command], capture_output=True, timeout=DEADLINE_S)
    return done.returncode == -signal.SIGKILL


def confine(narrow: dict[int, set[int]]) -> None:
    """Move threads to where a daemon had them."""
    for task, mask in narrow.items():
        os.sched_setaffinity(task, mask)


@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("count", [64, 500])
def test_a_restore_that_is_killed_at_any_call_can_be_done_again(tmp_path: Path, count: int) -> None:
    """Killed at one call and once more at another: the next one leaves no thread confined."""
    dice = random.Random(SEED + count)
    with threads(count) as pid:
        before = masks(pid)
        place = Place(tmp_path, configuration(pid, tmp_path), keeper=False)
        restore = [str(BINARY), "restore", str(place.config)]
        with start("run", place) as daemon:
            place.wait_for_windows(3)
            daemon.send(signal.SIGKILL).end()
            narrow, snapshot = masks(pid), place.snapshot.read_bytes()
            assert all(narrow[task] != mask for task, mask in before.items() if mask == ALL)
            calls = calls_of(restore, tmp_path / "calls")
            assert masks(pid) == before
        every = os.environ.get("WATTIO_EVERY")
        tried = calls[:: int(every)] if every else dice.sample(calls, CALLS_DRAWN)
        killed = 0
        for call in tried:
            confine(narrow)
            place.snapshot.write_bytes(snapshot)
            killed += kill_at(restore, call)
            kill_at(restore, dice.choice(calls))
            place.restore()
            assert masks(pid) == before, call
            assert not place.snapshot.exists(), call
    assert killed > 0.95 * len(tried)


FREQUENCIES = "/sys/devices/system/cpu/cpufreq"
LEFT = {
    f"{FREQUENCIES}/policy0/scaling_max_freq": ("2600000", ["1179648-1212415"], "1200000"),
    f"{FREQUENCIES}/policy1/scaling_max_freq": ("2600000", ["1179648-1212415"], "1500000"),
    f"{FREQUENCIES}/policy0/energy_performance_preference": ("performance", ["power"], "power"),
    f"{FREQUENCIES}/policy1/energy_performance_preference": ("default", ["power"], "performance"),
}
"""Files: their first value, the marks of what a daemon wrote, and what is there after its end."""


@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_restore_that_is_killed_at_any_call_leaves_what_others_set(tmp_path: Path) -> None:
    """Killed at one call and done again: ours is put back, and what somebody set since is left."""
    root = tmp_path / "root"
    place = Place(tmp_path, "", keeper=False)
    place.snapshot.parent.mkdir(mode=0o700)
    saved = [
        {"address": f"file:{path}", "value": first, "knob": "knob", "marks": marks}
        for path, (first, marks, _) in LEFT.items()
    ]
    text = json.dumps({"version": 2, "boot_id": "", "saved": saved})
    command = [str(BINARY), "--root", str(root), "restore", "--state", str(place.snapshot.parent)]
    theirs = {path for path in LEFT if "policy1" in path}

    def kill() -> None:
        for path, (_, _, found) in LEFT.items():
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{found}\n")
        place.snapshot.write_text(text)

    kill()
    calls = calls_of(command, tmp_path / "calls")
    every = os.environ.get("WATTIO_EVERY")
    tried = calls[:: int(every)] if every else random.Random(SEED).sample(calls, CALLS_DRAWN)
    killed = 0
    for call in tried:
        kill()
        killed += kill_at(command, call)
        done = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
        told = json.loads(done.stdout)["foreign"]
        assert not told or {place.removeprefix("file:") for place in told} == theirs, call
        for path, (first, _, found) in LEFT.items():
            expected = found if path in theirs else first
            assert (root / path.lstrip("/")).read_text().strip() == expected, (path, call)
        assert not place.snapshot.exists(), call
    assert killed > 0.95 * len(tried)
