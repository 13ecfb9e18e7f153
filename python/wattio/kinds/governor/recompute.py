"""Deriving every metric of a governor's result again, and comparing it with the catalog."""

from __future__ import annotations

from math import isnan

from wattio.errors import ResultError
from wattio.kinds.governor.folder import GovernorFolder
from wattio.results.catalog import Metrics
from wattio.results.recompute import Difference, agree


def differences(folder: GovernorFolder) -> tuple[int, list[Difference]]:
    """How many metrics were compared, and those that differ by more than 1e-9 of their value.

    Two derivations are compared with the catalog: from the journal, and from the samples alone.
    Raises ResultError where nothing is derived yet, or the journal has grown since.
    """
    recorded, _ = folder.recorded()
    if folder.has_grown():
        raise ResultError(
            f"{folder.path}: the journal has grown since the catalog was derived from it;"
            " `wattio report` derives it again"
        )
    again, sampled = folder.read().recorded.metrics, _from_samples(folder)
    shared = sampled.keys() & (recorded.metrics.keys() | again.keys())
    sources = (
        ("journal", again, recorded.metrics.keys() | again.keys()),
        ("samples", sampled, shared),
    )
    compared, found = 0, []
    for source, derived, names in sources:
        for name in sorted(names):
            compared += 1
            pair = (_value(recorded.metrics, name), _value(derived, name))
            if not agree(*pair):
                run = recorded.run.name
                found.append(Difference(run, recorded.seed, name, *pair, source))
    return compared, found


def _value(found: Metrics, name: str) -> float | None:
    return found[name][0] if name in found else None


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
