"""Processors that go off and on, and what the kernel hangs on them.

As Linux 6.x does: a processor's topology goes with it; an interrupt that only went to a processor
that leaves goes anywhere from then on; version 2 control groups keep the set that they were given
and show which of it is on.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from fuse.nodes import Node, refusal, whole

CPU = "sys/devices/system/cpu"
TICKS_PER_S = 100


def cpu_list(cpus: Iterable[int]) -> str:
    """The kernel's list of processors: `0-2,4`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def cpu_set(text: str) -> set[int]:
    """The processors of a list. Raises EINVAL for what is none."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(whole(first), whole(last or first) + 1))
    return found


class Processors:
    """Which processors there are, and which are on."""

    def __init__(self, count: int) -> None:
        self.present = set(range(count))
        self.online = set(self.present)
        self.followers: list[Follower] = []

    def plug(self, cpu: int, on: bool) -> None:
        """Take a processor on or off."""
        before = set(self.online)
        (self.online.add if on else self.online.discard)(cpu)
        for follower in self.followers:
            follower.follow(before)


class Follower(Protocol):
    """What changes when a processor goes off or on."""

    def follow(self, before: set[int]) -> None:
        """Processors changed: these were on."""


@dataclass
class Listed(Node):
    """The list of the processors that are on."""

    processors: Processors

    def read(self, at_s: float) -> str:
        return cpu_list(self.processors.online)


@dataclass
class Switch(Node):
    """`cpuN/online`."""

    processors: Processors
    cpu: int

    writable = True

    def read(self, at_s: float) -> str:
        return str(int(self.cpu in self.processors.online))

    def write(self, text: str, at_s: float) -> None:
        if text not in ("0", "1"):
            raise refusal(errno.EINVAL)
        self.processors.plug(self.cpu, text == "1")


@dataclass
class WhileOn(Node):
    """A file that goes with its processor."""

    processors: Processors
    cpu: int
    text: str

    def is_there(self) -> bool:
        return self.cpu in self.processors.online

    def read(self, at_s: float) -> str:
        return self.text


@dataclass
class Interrupt(Node, Follower):
    """`/proc/irq/N/smp_affinity_list`."""

    processors: Processors
    cpus: set[int]

    writable = True

    def read(self, at_s: float) -> str:
        return cpu_list(self.cpus)

    def write(self, text: str, at_s: float) -> None:
        cpus = cpu_set(text)
        if not cpus & self.processors.online:
            raise refusal(errno.EINVAL)
        self.cpus = cpus

    def follow(self, before: set[int]) -> None:
        if not self.cpus & self.processors.online:
            self.cpus = set(self.processors.online)


@dataclass
class Cpuset(Node):
    """`cpuset.cpus` of a version 2 control group."""

    processors: Processors
    cpus: set[int] = field(default_factory=set)

    writable = True

    def read(self, at_s: float) -> str:
        return cpu_list(self.cpus)

    def write(self, text: str, at_s: float) -> None:
        cpus = cpu_set(text)
        if not cpus <= self.processors.present:
            raise refusal(errno.EINVAL)
        self.cpus = cpus

    def effective(self) -> set[int]:
        """Where its tasks may run."""
        return self.cpus & self.processors.online or self.processors.online


@dataclass
class Effective(Node):
    """`cpuset.cpus.effective`."""

    cpuset: Cpuset

    def read(self, at_s: float) -> str:
        return cpu_list(self.cpuset.effective())


@dataclass
class Ticks(Node):
    """`/proc/stat`: every processor spends these shares of its time on clients and background."""

    processors: Processors
    clients: float
    background: float

    def read(self, at_s: float) -> str:
        total = math.floor(at_s * TICKS_PER_S + 1e-6)
        user, nice = (
            math.floor(share * at_s * TICKS_PER_S + 1e-6)
            for share in (self.clients, self.background)
        )
        ticks = f"{user} {nice} 0 {total - user - nice} 0 0 0 0 0 0"
        lines = [f"cpu  {ticks}"]
        lines += [f"cpu{cpu} {ticks}" for cpu in sorted(self.processors.online)]
        return "\n".join([*lines, "intr 0"])
