"""How two measured runs are compared, phase by phase, over their repetitions.

Repetitions of different sides are independent of each other, and either side may vary more.
"""

from __future__ import annotations

from dataclasses import replace

from wattio.kinds.measurement.schema import IDLE
from wattio.results.compare import UNEQUAL_WORK, Ratio, Side, corrected, of_means
from wattio.results.runs import Recorded
from wattio.results.summary import AMOUNTS, Row, equal_work, rows

METRICS = (
    "seconds",
    "throughput_mib_s",
    "iops",
    "files_per_s",
    *("latency_us_p99", "latency_us_p999", "latency_us_p9999"),
    "power_w_mean",
    "energy_j",
    "mib_per_joule",
    "iops_per_watt",
    "files_per_joule",
    "edp_w1",
)
"""What is compared, in this order."""

OF_EQUAL_WORK = ("seconds", "energy_j", "edp_w1", "edp_w1_net")
"""What says something only where both did the same work."""


def ratios(_: Side, left: list[Recorded], __: Side, right: list[Recorded]) -> list[Ratio]:
    """Every metric of every phase that both runs have."""
    theirs = {row.phase: row for row in rows(right)}
    return [
        ratio
        for row in rows(left)
        if row.phase in theirs
        for ratio in of_rows(row, theirs[row.phase])
    ]


def of_rows(left: Row, right: Row) -> list[Ratio]:
    """Every metric that a phase has on both sides; of unequal work, those that still say something.

    Idle phases do no work: how long they were says nothing either.
    """
    found = []
    same = equal_work([left, right])
    # Where nobody says how much was done, runs of one name are taken to have done the same.
    told = any(row.mean(name) for row in (left, right) for name in AMOUNTS)
    idle = left.run.subject == right.run.subject == IDLE
    left_out = () if same else OF_EQUAL_WORK if told or idle else ("edp_w1",)
    for name in METRICS:
        if name in left_out:
            continue
        first, second = left.get(name), right.get(name)
        if first is None or second is None or first.mean == 0:
            continue
        estimated = left.is_estimated(name) or right.is_estimated(name)
        names = (left.run.name, right.run.name, left.phase, name)
        ratio = of_means(names, first, second, "repetitions", estimated=estimated)
        found.append(replace(ratio, unequal=UNEQUAL_WORK if told and not same else ""))
    return corrected(found)
