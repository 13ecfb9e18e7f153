"""A `wattiod` that runs, and the place where it works: for tests as root."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

BINARY = Path(__file__).parents[2] / "target" / "debug" / "wattiod"
CPUSET = Path("/sys/fs/cgroup/cpuset")
DEADLINE_S = 60.0


def ask(*arguments: str) -> dict[str, Any]:
    """What `wattiod ARGUMENTS --json` prints."""
    command = [str(BINARY), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, (command, done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@dataclass
class Place:
    """A configuration of its own folder: state, socket, results."""

    folder: Path
    text: str
    keeper: bool = True
    """Without one, what a killed daemon leaves can be looked at."""

    def __post_init__(self) -> None:
        service = f"""
[service]
listen = "off"
socket = "{self.folder}/socket"
state = "{self.folder}/state"
keeper = {str(self.keeper).lower()}
"""
        self.config.write_text(self.text + service)

    @property
    def config(self) -> Path:
        """The configuration's file."""
        return self.folder / "wattiod.toml"

    @property
    def snapshot(self) -> Path:
        """Where old values are kept while they are changed."""
        return self.folder / "state" / "snapshot.json"

    def status(self) -> dict[str, Any]:
        """What the running daemon says of itself."""
        return ask("status", "--socket", f"{self.folder}/socket")

    def wait_until(self, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask the daemon until its status is as wanted. Fails after a minute."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if (self.folder / "socket").exists() and reached(status := self.status()):
                return status
        raise AssertionError(f"not reached: {self.status()}")

    def wait_for_windows(self, count: int) -> None:
        """Wait until the daemon has stepped so many times."""
        self.wait_until(lambda status: bool(status["counts"]["windows"] >= count))

    def restore(self) -> dict[str, Any]:
        """What `wattiod restore` does."""
        return ask("restore", str(self.config))

    def summary(self) -> dict[str, Any]:
        """The last status of the newest result folder."""
        newest = max((self.folder / "results").glob("*/*/raw/summary.json"))
        summary: dict[str, Any] = json.loads(newest.read_text())
        return summary

    def windows(self) -> list[dict[str, Any]]:
        """Every window of the newest result folder."""
        newest = max((self.folder / "results").glob("*/*/raw/windows.jsonl"))
        return [json.loads(line) for line in newest.read_text().splitlines()]


@dataclass
class Running:
    """A daemon that was started."""

    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)

    @property
    def _stderr(self) -> IO[str]:
        assert self.process.stderr is not None
        return self.process.stderr

    def wait_for(self, pattern: str) -> str:
        """The next line of the log that matches. Fails when the daemon ends before."""
        for line in self._stderr:
            self.log.append(line.rstrip())
            if re.search(pattern, line):
                return self.log[-1]
        raise AssertionError(f"ended before {pattern!r}: {self.log}")

    def send(self, number: signal.Signals) -> Self:
        """Send a signal."""
        self.process.send_signal(number)
        return self

    def end(self) -> int:
        """Wait for its end; the exit code."""
        stdout, stderr = self.process.communicate(timeout=DEADLINE_S)
        self.log.extend(stderr.splitlines())
        self.log.extend(stdout.splitlines())
        return self.process.returncode


@contextmanager
def start(mode: str, place: Place, *options: str) -> Iterator[Running]:
    """Start `wattiod MODE`; kill what is left of it at the end, and restore."""
    command = [str(BINARY), mode, str(place.config), *options]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=place.folder)
    try:
        yield Running(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
        if mode == "run":
            place.restore()


def make_group(group: Path, cpus: str | None = None) -> None:
    """Make a control group of cpuset (version 1), with every processor where none are named."""
    group.mkdir()
    (group / "cpuset.mems").write_text((CPUSET / "cpuset.mems").read_text())
    (group / "cpuset.cpus").write_text(cpus or (CPUSET / "cpuset.cpus").read_text())


@contextmanager
def control_group(name: str) -> Iterator[Path]:
    """A control group of cpuset (version 1) with every processor."""
    group = CPUSET / name
    make_group(group)
    try:
        yield group
    finally:
        for pid in (group / "tasks").read_text().split():
            (CPUSET / "tasks").write_text(pid)
        group.rmdir()


def cpus(text: str) -> set[int]:
    """The kernel's list of processors as a set."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


IDLE_SHARE = 0.25
"""Of the time: processors that are less idle are kept busy by others."""

ALL = cpus(Path("/sys/devices/system/cpu/online").read_text())
CORES = os.cpu_count() or 1


class Idleness:
    """How idle each of these processors is from now on."""

    def __init__(self, cores: set[int]) -> None:
        """Begin to watch."""
        self._begun_s, self._before_s = time.monotonic(), idle_s(cores)

    def least_share(self) -> float:
        """Of the busiest of them, as a share of the time since."""
        span_s = time.monotonic() - self._begun_s
        now_s = idle_s(set(self._before_s))
        return min((now_s[core] - before_s) / span_s for core, before_s in self._before_s.items())


def idle_s(cores: set[int]) -> dict[int, float]:
    """How long each of these processors has been idle since the host began, in seconds."""
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    ticks = os.sysconf("SC_CLK_TCK")
    found = {int(name[3:]): sum(map(int, values[3:5])) for name, *values in lines
             if re.fullmatch(r"cpu\d+", name)}  # fmt: skip
    return {core: found[core] / ticks for core in cores}
