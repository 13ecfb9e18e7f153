"""How two measured runs are compared, phase by phase, over their repetitions.

Repetitions of different sides are independent of each other, and either side may vary more.
"""

from __future__ import annotations

from wattio.results.compare import Ratio, Side, corrected, of_means
from wattio.results.runs import Recorded
from wattio.results.summary import Row, equal_work, rows

METRICS = (
    "seconds",
    "throughput_mib_s",
    "iops",
    *("latency_us_p99", "latency_us_p999", "latency_us_p9999"),
    "power_w_mean",
    "energy_j",
    "mib_per_joule",
    "iops_per_watt",
    "edp_w1",
)
"""What is compared, in this order."""


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
    """Every metric that a phase has on both sides."""
    found = []
    for name in METRICS:
        first, second = left.get(name), right.get(name)
        if first is None or second is None or first.mean == 0:
            continue
        if name == "edp_w1" and not equal_work([left, right]):
            continue  # Of unequal work, it says nothing.
        estimated = left.is_estimated(name) or right.is_estimated(name)
        names = (left.run.name, right.run.name, left.phase, name)
        found.append(of_means(names, first, second, "repetitions", estimated=estimated))
    return corrected(found)
