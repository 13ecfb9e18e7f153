"""What a result is about: its runs, and what was seen in each of their iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Setting = float | int | bool | str
"""The value of one setting."""

Metrics = dict[str, tuple[float, str]]
"""Value and unit of each metric, by name."""

WHOLE = ""
"""The phase of metrics that are about a whole iteration."""


@dataclass(frozen=True)
class Run:
    """A subject under a condition; its iterations differ by seed and repetition only.

    The subject is what is asked (a load, a workload) of a system (a server, a file system); the
    condition is what may differ between runs of one subject (a policy, clients, settings). `facts`
    holds what only some kinds of studies know of a run.
    """

    subject: str
    system: str
    condition: str
    settings: Mapping[str, Setting]
    facts: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Subject and condition, as `wattio compare` takes them."""
        return f"{self.subject}/{self.condition}"

    @property
    def policy(self) -> str:
        """The policy that governs it. Raises KeyError if none does."""
        return str(self.facts["policy"])

    @property
    def plf(self) -> float:
        """The tolerated loss of latency as a share. Raises KeyError if there is no such bound."""
        return float(self.facts["plf"])

    @property
    def sweep_of(self) -> Setting | None:
        """The condition that it varies, if it is a point of a sweep."""
        return self.facts.get("sweep_of")

    @property
    def sweep_setting(self) -> Setting | None:
        """The setting that the sweep varies."""
        return self.facts.get("sweep_setting")


@dataclass(frozen=True)
class Phase:
    """A stretch of an iteration on both clocks of the machine that ran it."""

    name: str
    start_utc_ns: int
    end_utc_ns: int
    start_monotonic_ns: int
    end_monotonic_ns: int


@dataclass(frozen=True)
class Verdict:
    """VALID, WARN or INVALID, with the reason."""

    verdict: str
    reason: str


@dataclass(frozen=True)
class Recorded:
    """An iteration that has ended, as the catalog holds it.

    `attempt` counts how often it was tried before, and was INVALID.
    """

    identity: str
    run: Run
    seed: int
    repetition: int
    derived_seed: int
    verdicts: tuple[Verdict, ...]
    by_phase: Mapping[str, Metrics]
    attempt: int = 0

    @property
    def usable(self) -> bool:
        """Whether means may be taken over it: every verdict but INVALID."""
        return all(verdict.verdict != "INVALID" for verdict in self.verdicts)

    def codes(self, kind: str) -> list[str]:
        """The first words of the reasons of verdicts of a kind, each once: LOW_N, GAP."""
        reasons = (one.reason for one in self.verdicts if one.verdict == kind)
        return list(dict.fromkeys(reason.partition(":")[0] for reason in reasons))

    @property
    def metrics(self) -> Metrics:
        """The metrics of the whole iteration."""
        return self.by_phase.get(WHOLE, {})

    @property
    def name(self) -> str:
        """How a line names it."""
        repetition = f" repetition {self.repetition + 1}" if self.repetition else ""
        attempt = f" attempt {self.attempt + 1}" if self.attempt else ""
        return f"{self.run.name}{repetition}{attempt}"
