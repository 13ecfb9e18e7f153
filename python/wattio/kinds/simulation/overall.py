"""What policies are worth over many loads: medians, quarters and what was kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattio.analysis import soundness
from wattio.kinds.simulation import promises
from wattio.results.summary import Row
from wattio.simulator.policies import BOUND_BY, REFERENCE

LOADS_MIN = 4
"""With fewer loads of a kind of bound their own tables say it all."""


@dataclass(frozen=True)
class Overall:
    """One policy over all its loads with one kind of bound.

    `bound` is what that is on: "mean", "p99". `latency_worst` is the worst ratio of mean latencies
    to native's; `limit_worst` that of a latency to what its bound allows, of bounds that were given
    in place of a plf. Shares are of native's power (`saving`) and of the oracle's saving
    (`captured`); `worst_quarter` is the quartile below which a quarter of the loads lie. `captured`
    counts a load whose bound was broken, or whose background work was left undone, as nothing
    saved. None if no load tells.
    """

    bound: str
    label: str
    loads: int
    kept: int
    judged: int
    background_done: int
    latency_worst: float | None
    limit_worst: float | None
    saving_median: float | None
    captured_median: float | None
    captured_worst_quarter: float | None


def of(rows: Sequence[Row]) -> list[Overall]:
    """Each policy over all loads of each kind of bound, in the order of the study.

    Kinds with few loads are left out.
    """
    subjects = [row for row in rows if row.run.sweep_of is None and row.run.policy != REFERENCE]
    kinds: dict[str, list[Row]] = {}
    for row in subjects:
        kinds.setdefault(promises.kind(row.run), []).append(row)
    found = []
    for kind, held in kinds.items():
        if len({row.run.subject for row in held}) >= LOADS_MIN:
            labels = dict.fromkeys(row.run.condition for row in held)
            found += [_of(kind, [r for r in held if r.run.condition == label]) for label in labels]
    return found


def by_bound(found: Sequence[Overall]) -> dict[str, list[Overall]]:
    """The policies by the kind of bound, under a title that tells it where there are several."""
    kinds = list(dict.fromkeys(policy.bound for policy in found))
    return {
        "Over all loads" if len(kinds) == 1 else f"Over all loads with a bound on {_the(kind)}": [
            policy for policy in found if policy.bound == kind
        ]
        for kind in kinds
    }


def _the(kind: str) -> str:
    return "the mean" if kind == promises.MEAN else kind


def _of(kind: str, rows: list[Row]) -> Overall:
    judged = [row.bound_kept for row in rows if row.bound_kept is not None]
    latencies = [found for row in rows if (found := row.mean("relative_latency_us_mean"))]
    limits = [found for row in rows if (found := row.mean("bound_limit_ratio"))]
    savings = [found for row in rows if (found := row.mean("saving_share")) is not None]
    captured = [
        found if sound(row) else 0.0
        for row in rows
        if (found := row.mean("captured_share")) is not None and row.run.policy != BOUND_BY
    ]
    return Overall(
        bound=kind,
        label=rows[0].run.condition,
        loads=len(rows),
        kept=sum(judged),
        judged=len(judged),
        background_done=sum(does_background(row) for row in rows),
        latency_worst=max(latencies, default=None),
        limit_worst=max(limits, default=None),
        saving_median=_quantile(savings, 0.5),
        captured_median=_quantile(captured, 0.5),
        captured_worst_quarter=_quantile(captured, 0.25),
    )


def sound(row: Row) -> bool:
    """Whether what a row saved may be called saved: its bound kept, its background work done."""
    return soundness.sound(row.bound_kept, row.mean("relative_background_rate"))


def does_background(row: Row) -> bool:
    """Whether the background work was done: all that native does of it, or nearly so."""
    return soundness.does_background(row.mean("relative_background_rate"))


def _quantile(values: list[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None
