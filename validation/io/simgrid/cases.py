"""What SimGrid is asked to simulate, what the model says of it, and how far they may differ.

What is known beforehand to be in SimGrid and not in the model is an `Expected` range of deviations
with its reason, worked out from the parameters before anything is simulated. Beyond it, only
`REST` is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wattio.models import extended, scenario
from wattio.models.approach import Approach, Resources, parse, resources
from wattio.models.files import read_application, read_platform
from wattio.models.parameter import Parameter, central
from wattio.models.scalability import Form
from wattio.models.scenario import Application, Platform, Prediction

from validation.io.models import FOLDER

DUMPS = 20
LATENCY_S = 50e-6
"""Of a message, one way: an assumption, as that of Ethernet within a cluster."""

REST = 0.001
"""Accepted where nothing is known to differ. A dump has at most three messages one after another,
0.15 ms of at least 0.5 s: 0.03 %; the rest is for sizes in whole bytes and SimGrid's precision."""


HANDED_ON = (
    *("base_s", "cores_sigma", "nodes_sigma", "client_bytes_s", "storage_bytes_s", "contention"),
    *("free_writers", "copy_s_per_gib", "send_s_per_gib", "power_max_w"),
)
"""The platform's parameters that SimGrid's run takes as they are."""


@dataclass(frozen=True)
class Expected:
    """SimGrid's deviation from the model that a reason makes: from `low` to `high`, relative."""

    why: str
    low: float
    high: float


@dataclass(frozen=True)
class Case:
    """A run to compare. `polls`: those who wait burn their core; otherwise they sleep."""

    place: str
    platform: Platform
    application: Application
    approach: Approach
    values: Mapping[str, float]
    polls: bool

    @property
    def waiting(self) -> str:
        """What those do who wait."""
        return "polls" if self.polls else "sleeps"

    @property
    def resources(self) -> Resources:
        """What computes and what writes."""
        return resources(self.approach, self.platform.nodes, self.platform.cores)

    def predict(self) -> Prediction:
        """The extended model's word, with the power while waiting that SimGrid's hosts draw.

        Its writers compute nothing, so what does not poll sleeps all the time.
        """
        waiting = {
            "blocked_share": 1.0 if self.polls else self.values["idle_share"],
            "asleep_share": 0.0 if self.polls else 1.0,
        }
        values = {**self.values, **waiting}
        return scenario.predict(self.approach, self.platform, self.application, values)

    def computing_s(self) -> float:
        """Computing of the whole run, by the model."""
        step = scenario.step_s_of(self.resources, self.platform, self.application, self.values)
        return float(step) * self.application.iterations

    def simulated(self) -> dict[str, Any]:
        """What `dumps.py` takes: parameters only, nothing that the model computed."""
        v = self.values
        return {
            **{name: float(v[name]) for name in HANDED_ON},
            "kind": self.approach.kind,
            "number": self.approach.number,
            "nodes": self.platform.nodes,
            "cores": self.platform.cores,
            "dumps": self.application.dumps,
            "steps": self.application.output_every,
            "dump_bytes": self.application.output_bytes,
            "power_idle_w": v["idle_share"] * v["power_max_w"],
            "latency_s": LATENCY_S,
            "polls": self.polls,
        }

    def edges(self, spread: float) -> Expected:
        """What the first and the last dump add to a run, where writing goes on beside computing.

        SimGrid's run begins with computing alone and ends with writing alone. The model has the
        longer of both for each dump, so SimGrid's run is longer by the shorter of both, once.
        """
        once = 0.0 if self.approach.kind == "tp" else (1 + spread) / self.application.dumps
        return Expected("the first and the last dump", 0.0, once)

    def expected(self) -> list[Expected]:
        """Reasons for another length, and energy, of a period."""
        used = self.resources
        if used.dedicated_nodes == 0 or used.compute_nodes % used.dedicated_nodes == 0:
            return []
        mean = used.compute_nodes / used.dedicated_nodes
        return [
            Expected(
                f"uneven groups, {math.floor(mean)} and {math.ceil(mean)} computing nodes of an"
                " I/O node: the model takes them as equal. The larger ones take longer, but groups"
                " get out of step, so that some send while others write",
                self._least_s() / self._period_s() - 1,
                math.ceil(mean) / mean - 1,
            )
        ]

    def _period_s(self) -> float:
        return float(self.predict().time_s) / self.application.dumps

    def _least_s(self) -> float:
        """A period in which handing over is hidden, and the number of writers is the best one."""
        v = self.values
        rates = [
            float(
                extended.bandwidth(
                    writers,
                    v["client_bytes_s"],
                    v["storage_bytes_s"],
                    v["contention"],
                    v["free_writers"],
                )
            )
            for writers in range(1, self.resources.writers + 1)
        ]
        computing = self.computing_s() / self.application.dumps
        return max(computing, self.application.output_bytes / max(rates))


def _certain(name: str, value: float) -> Parameter:
    return Parameter(name, value, value, value, "assumed", least=-1.0)


def small_platform() -> Platform:
    """Four nodes without contention, whose writers are slow: made up, unlike Nancy's in kind."""
    numbers = {
        "power_max_w": 200.0,
        "idle_share": 0.5,
        "blocked_share": 1.0,
        "client_bytes_s": 50e6,
        "storage_bytes_s": 150e6,
        "contention": 0.0,
        "free_writers": 0.0,
        "copy_s_per_gib": 0.25,
        "send_s_per_gib": 2.0,
        "base_s": 2.0,
    }
    return Platform(
        "four nodes",
        nodes=4,
        cores=4,
        application="made up",
        cores_speedup=Form(_certain("cores_sigma", 0.03)),
        nodes_speedup=Form(_certain("nodes_sigma", 0.01)),
        numbers=tuple(_certain(name, value) for name, value in numbers.items()),
    )


def cases(dumps: int = DUMPS) -> list[Case]:
    """All runs: both platforms, bound by computing and by writing, with both ways of waiting."""
    nancy = read_platform(FOLDER / "platforms" / "nancy.toml").build()
    cm1 = read_application(FOLDER / "cm1.toml")
    small = small_platform()
    made_up = Application("made up", 0, 0, 400e6)
    usual = ("tp", "dc:1", "dc:2", "dn:15", "dn:7")
    few = ("tp", "dc:1", "dc:2", "dn:3")
    return [
        *_of("Nancy", nancy, cm1, 10, dumps, (*usual, "dn:6")),
        *_of("Nancy", nancy, cm1, 30, dumps, usual),
        *_of("Nancy, 2 GB/s", nancy, cm1, 10, dumps, usual, storage_bytes_s=2e9),
        *_of("four nodes", small, made_up, 5, dumps, few),
        *_of("four nodes, 2 GB/s", small, made_up, 20, dumps, few, storage_bytes_s=2e9),
    ]


def _of(
    place: str,
    platform: Platform,
    application: Application,
    every: int,
    dumps: int,
    approaches: Sequence[str],
    **changed: float,
) -> list[Case]:
    values = central(platform.parameters) | changed
    run = replace(application, output_every=every, iterations=every * dumps)
    return [
        Case(place, platform, run, parse(text), values, polls)
        for text in approaches
        for polls in (True, False)
    ]
