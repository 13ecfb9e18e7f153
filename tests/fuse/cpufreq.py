"""Frequency policies, as Linux 6.x with acpi-cpufreq has them.

Limits are clamped to those of the hardware and rounded down to a step; the files of a policy whose
processors are all off are busy; the governor `userspace` then forgets what it was told.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from fuse.nodes import Node, refusal, whole
from fuse.processors import Follower, Processors


@dataclass
class Turbo(Node):
    """`cpufreq/boost`: while it is off, nothing is faster than `base_khz`, whatever was asked for.

    Limits show it, and what was asked for is in force again with it (`freq_qos` requests stay).
    """

    base_khz: int
    is_on: bool = True

    writable = True

    def read(self, at_s: float) -> str:
        return str(int(self.is_on))

    def write(self, text: str, at_s: float) -> None:
        if text not in ("0", "1"):
            raise refusal(errno.EINVAL)
        self.is_on = text == "1"


@dataclass
class Policy(Follower):
    """Processors that change frequency together; frequencies in kHz, `steps` ascending."""

    processors: Processors
    cpus: set[int]
    steps: tuple[int, ...]
    lowest: int
    highest: int
    governor: str = "schedutil"
    turbo: Turbo | None = None

    def __post_init__(self) -> None:
        self.asked = self.highest

    def limits(self) -> tuple[int, int]:
        """The limits in force: what was asked for, clamped as cpufreq_verify_within_limits does."""
        fastest = self.steps[-1]
        if self.turbo is not None and not self.turbo.is_on:
            fastest = min(fastest, self.turbo.base_khz)
        within = [min(max(khz, self.steps[0]), fastest) for khz in (self.lowest, self.highest)]
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
