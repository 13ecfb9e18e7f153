"""The summary of a result: each policy against native, on each load; from the catalog alone.

Values are means over the iterations that are not INVALID, ratios are geometric means over pairs of
twins. All segments of a profile that are simulated equally long must span equally long in reality
for these means to be means over the day; the report says where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattio.analysis import statistics
from wattio.analysis.statistics import Interval
from wattio.results.catalog import Recorded
from wattio.results.runs import Run

RATIOS = (
    "relative_iops",
    "relative_iops_per_watt",
    "relative_latency_us_mean",
    "relative_latency_us_p99",
    "relative_latency_us_p999",
    "relative_latency_us_p9999",
    "relative_background_rate",
)


@dataclass(frozen=True)
class Row:
    """One run over its iterations. `values` holds a metric's mean, `intervals` its confidence."""

    run: Run
    iterations: int
    warned: int
    invalid: int
    values: dict[str, float]
    intervals: dict[str, Interval]
    bound_kept: bool | None

    def get(self, name: str) -> float | None:
        """A metric's mean; None where no iteration gave it."""
        return self.values.get(name)


def rows(iterations: Sequence[Recorded]) -> list[Row]:
    """One row for each run: load by load, the points of a sweep after the policies."""
    groups: dict[str, list[Recorded]] = {}
    for item in iterations:
        groups.setdefault(item.run.name, []).append(item)
    loads = list(dict.fromkeys(item.run.load for item in iterations))
    found = [_row(group) for group in groups.values()]
    return sorted(found, key=lambda row: loads.index(row.run.load))


def _row(group: list[Recorded]) -> Row:
    used = [item for item in group if item.usable]
    warned = sum(any(v.verdict == "WARN" for v in item.verdicts) for item in used)
    values: dict[str, float] = {}
    intervals: dict[str, Interval] = {}
    names = {name for item in used for name in item.metrics}
    for name in sorted(names):
        sample = [item.metrics[name][0] for item in used if name in item.metrics]
        if name in RATIOS and all(value > 0 for value in sample):
            values[name] = statistics.geometric_mean(sample)
        else:
            values[name] = sum(sample) / len(sample)
        if len(sample) > 1:
            # Seeded by a constant: the same result always shows the same interval.
            intervals[name] = statistics.bootstrap_mean(sample, seed=1)
    kept = [item.metrics.get("bound_latency_us_mean_ok") for item in used]
    known = [value[0] > 0 for value in kept if value is not None]
    bound_kept = all(known) if known else None
    invalid = len(group) - len(used)
    return Row(group[0].run, len(used), warned, invalid, values, intervals, bound_kept)
