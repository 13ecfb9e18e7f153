"""Deriving every metric of a governor's result again, and comparing it with the catalog."""

from __future__ import annotations

from math import isnan

from wattio.errors import ResultError
from wattio.kinds.governor.folder import GovernorFolder
from wattio.results.recompute import Comparison
from wattio.results.runs import WHOLE, Metrics


def compare(folder: GovernorFolder) -> Comparison:
    """Compare two derivations with the catalog: from the journal, and from the samples alone.

    Raises ResultError if nothing is derived yet, or the journal has grown since.
    """
    recorded, _ = folder.recorded()
    if folder.has_grown():
        raise ResultError(
            f"{folder.path}: the journal has grown since the catalog was derived from it;"
            " run `wattio report` to derive it again"
        )
    again, sampled = folder.read().recorded.metrics, _from_samples(folder)
    known = recorded.metrics.keys() | again.keys()
    found = Comparison()
    found.metrics(recorded, {WHOLE: again}, "journal")
    shared = {name: value for name, value in sampled.items() if name in known}
    found.metrics(recorded, {WHOLE: shared}, "samples", part=True)
    return found


def _from_samples(folder: GovernorFolder) -> Metrics:
    """The metrics that samples alone determine; violations under both of their names."""
    row = folder.query("""SELECT
        count(*) AS windows, sum(dt_s) AS span_s,
        sum(requests) FILTER (latency_us_mean IS NOT NULL) AS requests,
        sum(requests * latency_us_mean) / sum(requests) FILTER (latency_us_mean IS NOT NULL)
            AS latency_us_mean,
        count(*) FILTER (bounded) AS windows_bounded,
        count(*) FILTER (bounded AND latency_us_seen > bound_us) AS violations,
        sum(dt_s * power_w_measured) AS energy_j_measured,
        sum(dt_s * power_w_estimated) FILTER (power_w_full_speed_estimated IS NOT NULL)
            AS energy_j_estimated,
        sum(dt_s * power_w_full_speed_estimated) FILTER (power_w_estimated IS NOT NULL)
            AS energy_j_full_speed_estimated
        FROM judged""")
    values = {name: float(column[0]) for name, column in row.items()}
    found: Metrics = {name: (value, "") for name, value in values.items() if not isnan(value)}
    found["violations_estimated"] = found["violations"]
    return found
