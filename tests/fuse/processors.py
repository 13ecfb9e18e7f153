"""Processors that go off and on, and what the kernel hangs on them.

As Linux 6.x does: processor 0 cannot leave; the files of a frequency policy whose processors are
all off are busy; the governor `userspace` then forgets what it was told; an interrupt that only
went to a processor that leaves goes anywhere from then on; version 2 control groups keep the set
that they were given and show which of it is on.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from fuse.nodes import Constant, Link, Node, Tree, Value, refusal, whole

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


class Follower:
    """What changes when a processor goes off or on."""

    def follow(self, before: set[int]) -> None:
        """Processors changed: these were on."""
        raise NotImplementedError


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
class Policy(Follower):
    """Processors that change frequency together; frequencies in kHz, `steps` ascending."""

    processors: Processors
    cpus: set[int]
    steps: tuple[int, ...]
    lowest: int
    highest: int
    governor: str = "schedutil"

    def __post_init__(self) -> None:
        self.asked = self.highest

    def limits(self) -> tuple[int, int]:
        """The limits in force: what was asked for, clamped as cpufreq_verify_within_limits does."""
        within = [
            min(max(khz, self.steps[0]), self.steps[-1]) for khz in (self.lowest, self.highest)
        ]
        top = max(step for step in self.steps if step <= within[1])
        return min(within[0], top), top

    def current(self) -> int:
        """The frequency: under `userspace` the next step that is no slower than asked for."""
        lowest, highest = self.limits()
        asked = self.asked if self.governor == "userspace" else highest
        return min(step for step in self.steps if step >= min(max(asked, lowest), highest))

    def follow(self, before: set[int]) -> None:
        if not self.cpus & before:
            self.asked = self.steps[-1]


@dataclass
class PolicyFile(Node):
    """A file of a policy, by its name."""

    policy: Policy
    name: str

    def __post_init__(self) -> None:
        self.writable = self.name in (
            "scaling_min_freq",
            "scaling_max_freq",
            "scaling_setspeed",
            "scaling_governor",
        )

    def _check(self) -> None:
        if not self.policy.cpus & self.policy.processors.online:
            raise refusal(errno.EBUSY)

    def read(self, at_s: float) -> str:
        self._check()
        policy = self.policy
        userspace = policy.governor == "userspace"
        texts = {
            "related_cpus": " ".join(map(str, sorted(policy.cpus))),
            "affected_cpus": " ".join(map(str, sorted(policy.cpus & policy.processors.online))),
            "cpuinfo_min_freq": str(policy.steps[0]),
            "cpuinfo_max_freq": str(policy.steps[-1]),
            "scaling_available_frequencies": " ".join(map(str, reversed(policy.steps))),
            "scaling_driver": "acpi-cpufreq",
            "scaling_governor": policy.governor,
            "scaling_min_freq": str(policy.limits()[0]),
            "scaling_max_freq": str(policy.limits()[1]),
            "scaling_cur_freq": str(policy.current()),
            "scaling_setspeed": str(policy.current()) if userspace else "<unsupported>",
        }
        return texts[self.name]

    def write(self, text: str, at_s: float) -> None:
        self._check()
        policy = self.policy
        if self.name == "scaling_governor":
            if text not in ("schedutil", "performance", "powersave", "userspace"):
                raise refusal(errno.EINVAL)
            policy.asked, policy.governor = policy.current(), text
        elif self.name == "scaling_min_freq":
            policy.lowest = whole(text)
        elif self.name == "scaling_max_freq":
            policy.highest = whole(text)
        elif policy.governor == "userspace":
            policy.asked = whole(text)
        else:
            raise refusal(errno.EINVAL)


POLICY_FILES = (
    *("related_cpus", "affected_cpus", "cpuinfo_min_freq", "cpuinfo_max_freq"),
    *("scaling_available_frequencies", "scaling_driver", "scaling_governor"),
    *("scaling_min_freq", "scaling_max_freq", "scaling_cur_freq", "scaling_setspeed"),
)


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


def processors(count: int, clients: float = 0.3, background: float = 0.1) -> Tree:
    """So many processors: N and N + count/2 share a core and a frequency."""
    all_of_them, half = Processors(count), count // 2
    together = {cpu: {cpu % half, cpu % half + half} for cpu in range(count)}
    tree: Tree = {
        f"{CPU}/present": Constant(cpu_list(range(count))),
        f"{CPU}/possible": Constant(cpu_list(range(count))),
        f"{CPU}/online": Listed(all_of_them),
        "sys/devices/system/node/node0/cpulist": Listed(all_of_them),
        "proc/stat": Ticks(all_of_them, clients, background),
        "proc/irq/40/smp_affinity_list": Interrupt(all_of_them, set(range(count))),
        "proc/irq/41/smp_affinity_list": Interrupt(all_of_them, {count - 1}),
    }
    for cpu, core in together.items():
        siblings = WhileOn(all_of_them, cpu, cpu_list(core))
        tree[f"{CPU}/cpu{cpu}/topology/core_cpus_list"] = siblings
        tree[f"{CPU}/cpu{cpu}/cpufreq"] = Link(f"../cpufreq/policy{cpu % half}")
        if cpu > 0:
            tree[f"{CPU}/cpu{cpu}/online"] = Switch(all_of_them, cpu)
    for number in range(half):
        steps = (800_000, 1_000_000, 1_800_000, 2_600_000, 3_000_000)
        policy = Policy(all_of_them, together[number], steps, lowest=1_000_000, highest=2_600_000)
        all_of_them.followers.append(policy)
        for name in POLICY_FILES:
            tree[f"{CPU}/cpufreq/policy{number}/{name}"] = PolicyFile(policy, name)
    all_of_them.followers += [node for node in tree.values() if isinstance(node, Interrupt)]
    tree |= _control_groups(all_of_them)
    return tree


def _control_groups(all_of_them: Processors) -> Tree:
    """Version 2: `/s.slice/etcd.service`."""
    top = "sys/fs/cgroup/s.slice"
    service = Cpuset(all_of_them)
    return {
        "proc/mounts": Constant("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"),
        f"{top}/cpuset.cpus.effective": Listed(all_of_them),
        f"{top}/etcd.service/cpuset.cpus": service,
        f"{top}/etcd.service/cpuset.cpus.effective": Effective(service),
        f"{top}/etcd.service/cpu.weight": Value("100", lowest=1, highest=10_000),
        f"{top}/etcd.service/cgroup.freeze": Value("0"),
    }
