"""Two derivations of a metric: the one in the catalog, and one from what else was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wattio.analysis import energy
from wattio.results.runs import Metrics, Recorded, Verdict

LATER = ("latency_us_p9999", "relative_latency_us_p999", "servers_bound_unknown")
"""Ends of names of metrics that a catalog of an earlier version cannot have."""

BALANCE_LIMIT = 1e-9
"""Largest relative difference between sums that should be equal."""


@dataclass(frozen=True)
class Difference:
    """A metric whose two derivations do not agree; None if one of them lacks it."""

    run: str
    seed: int
    metric: str
    recorded: float | None
    derived: float | None
    source: str


@dataclass
class Comparison:
    """How many derivations were compared with the catalog, and those that do not agree."""

    compared: int = 0
    differences: list[Difference] = field(default_factory=list)

    def metrics(
        self, item: Recorded, derived: Mapping[str, Metrics], source: str, *, part: bool = False
    ) -> None:
        """Compare metrics, by phase; of a `part` only those that it has. Equal within rounding."""
        recorded = _flat(item.by_phase)
        again = _known(_flat(derived), recorded)
        names = again.keys() if part else recorded.keys() | again.keys()
        for name in sorted(names):
            pair = recorded.get(name), again.get(name)
            self._add(item, name, pair, source, agree(*pair))

    def exactly(
        self, item: Recorded, derived: Mapping[str, Metrics], judged: Sequence[Verdict], source: str
    ) -> None:
        """Compare metrics and verdicts, which must be equal to the last digit."""
        recorded = _flat(item.by_phase) | _told(item.verdicts)
        again = _known(_flat(derived), recorded) | _told(judged)
        for name in sorted(recorded.keys() | again.keys()):
            pair = recorded.get(name), again.get(name)
            self._add(item, name, pair, source, pair[0] == pair[1])

    def _add(
        self,
        item: Recorded,
        name: str,
        pair: tuple[float | None, float | None],
        source: str,
        equal: bool,
    ) -> None:
        self.compared += 1
        if not equal:
            self.differences.append(Difference(item.name, item.seed, name, *pair, source))


def agree(recorded: float | None, derived: float | None) -> bool:
    """Whether two derivations of a metric agree within rounding."""
    if recorded is None or derived is None:
        return recorded is derived
    return energy.balance_error(recorded, {"derived": derived}) <= BALANCE_LIMIT


def _flat(by_phase: Mapping[str, Metrics]) -> dict[str, float]:
    return {
        f"{phase}.{name}" if phase else name: value
        for phase, metrics in by_phase.items()
        for name, (value, _) in metrics.items()
    }


def _known(again: dict[str, float], recorded: Mapping[str, float]) -> dict[str, float]:
    """Without those of LATER that are not recorded."""
    return {
        name: value for name, value in again.items() if name in recorded or not name.endswith(LATER)
    }


def _told(verdicts: Sequence[Verdict]) -> dict[str, float]:
    return {f"{verdict.verdict} {verdict.reason}": 1.0 for verdict in verdicts}
