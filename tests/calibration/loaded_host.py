"""A host whose power is a known function of its knobs and its load, as a tree of files.

`load` is a file of its own: the share that every processor is busy, which a test writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fuse.cpufreq import Policy, PolicyFile
from fuse.hosts import holder, hwmon, processors
from fuse.nodes import Constant, Node, Tree
from fuse.processors import CPU, Listed, Processors
from wattio.calibration.loads import Loads

CORES = 4
METER = "hwmon:power_meter/power1"
_LOAD = "load"
_TICKS_PER_S = 10_000
"""More than a kernel has: short spans are then told exactly."""


@dataclass
class Load(Node):
    """The share of its time that every processor is busy, and how long it was so far."""

    share: float = 0.0
    busy_s: float = 0.0
    since_s: float = 0.0

    writable = True

    def busy_until(self, at_s: float) -> float:
        return self.busy_s + self.share * max(at_s - self.since_s, 0.0)

    def read(self, at_s: float) -> str:
        return repr(self.share)

    def write(self, text: str, at_s: float) -> None:
        self.busy_s, self.since_s = self.busy_until(at_s), at_s
        self.share = float(text)


@dataclass
class Stat(Node):
    """/proc/stat: every processor that is on carries the load."""

    processors: Processors
    load: Load

    def read(self, at_s: float) -> str:
        busy = round(self.load.busy_until(at_s) * _TICKS_PER_S)
        idle = round(at_s * _TICKS_PER_S) - busy
        ticks = f"{busy} 0 0 {idle} 0 0 0 0 0 0"
        return "\n".join(f"cpu{cpu} {ticks}" for cpu in sorted(self.processors.online))


@dataclass
class Power(Node):
    """What the host draws, in microwatts: the model that is to be found."""

    processors: Processors
    policies: Sequence[Policy]
    load: Load
    watts: Mapping[str, float]

    def read(self, at_s: float) -> str:
        power_w = self.watts["rest"]
        for policy in self.policies:
            phi = policy.current() / policy.steps[-1]
            active = self.watts["core"] + self.watts["core_frequency"] * phi
            busy = self.watts["busy"] + self.watts["busy_frequency"] * phi
            on = len(policy.cpus & self.processors.online)
            power_w += on * (active + self.load.share * busy)
        return str(round(power_w * 1e6))


def tree(watts: Mapping[str, float]) -> Tree:
    """Four processors in two policies, with a power sensor."""
    found: Tree = {**holder(), **processors(CORES)}
    online = found[f"{CPU}/online"]
    assert isinstance(online, Listed)
    policies = [
        node.policy
        for path, node in found.items()
        if path.endswith("scaling_cur_freq") and isinstance(node, PolicyFile)
    ]
    load = Load()
    found |= hwmon(Power(online.processors, policies, load, watts))
    found["sys/class/hwmon/hwmon0/power1_average_interval"] = Constant("100")
    found["proc/stat"] = Stat(online.processors, load)
    found[_LOAD] = load
    return found


class TreeLoads(Loads):
    """Tells the tree how busy it is."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._file = root / _LOAD

    @contextmanager
    def held(self, load: float, cores: Sequence[int], readers: int) -> Iterator[None]:
        self._tell(load)
        yield
        self._tell(0.0)

    def _tell(self, load: float) -> None:
        # One call of write, as a kernel's file wants it.
        descriptor = os.open(self._file, os.O_WRONLY)
        os.write(descriptor, repr(load).encode())
        os.close(descriptor)
