"""What the report of a governor shows, read from its result folder."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattio.analysis import soundness
from wattio.analysis.histogram import Counts, Edges
from wattio.kinds.governor.folder import GovernorFolder
from wattio.kinds.governor.journal import Event, Machine, Summary
from wattio.report.plots import POINTS
from wattio.results.runs import Phase, Recorded
from wattio.results.samples import quoted

Series = dict[str, NDArray[Any]]
"""Columns of equal length, one row for each point over time."""

EVENTS_SHOWN = 200
"""The newest events are shown; all of them are in raw/events.jsonl."""

_POINTS = """SELECT
    (min(monotonic_ns - CAST(dt_s * 1e9 AS BIGINT)) - {start_ns}) / 1e9 AS start_s,
    (max(monotonic_ns) - {start_ns}) / 1e9 AS end_s,
    sum(dt_s) AS span_s,
    sum(requests) AS requests,
    sum(requests * latency_us_mean) / sum(requests) FILTER (latency_us_mean IS NOT NULL)
        AS latency_us_mean,
    sum(requests * latency_us_seen) / sum(requests) FILTER (latency_us_seen IS NOT NULL)
        AS latency_us_seen,
    max(latency_us_seen) AS latency_us_seen_max,
    count(*) FILTER (bounded) AS windows_bounded,
    count(*) FILTER (bounded AND latency_us_seen > bound_us) AS violations,
    {means}
FROM judged GROUP BY "window" // {step} ORDER BY "window" // {step}"""

_MEAN = "sum(dt_s * {column}) / sum(dt_s) FILTER ({column} IS NOT NULL) AS {name}"
_SHARE = "sum(dt_s) FILTER (state = {number}) / sum(dt_s) AS {name}"

_HISTOGRAM = """SELECT edge, sum(amount) AS amount FROM (
    SELECT unnest(histogram_latency_us) AS edge, unnest(histogram_count) AS amount FROM windows)
GROUP BY edge ORDER BY edge"""

_FORCED = """SELECT forced, count(*) AS windows FROM windows
WHERE forced IS NOT NULL GROUP BY forced ORDER BY windows DESC, forced LIMIT 10"""

MEANS = (
    *("baseline_us", "bound_us", "power_w_measured"),
    *("power_w_estimated", "power_w_full_speed_estimated"),
)
"""Columns averaged over time."""

STATE_SHARES = ("state_share_unstable", "state_share_stable", "state_share_idle")
"""Share of a point's time in each state."""


@dataclass(frozen=True)
class Governed:
    """A governor's whole result folder, as a report needs it."""

    folder: GovernorFolder
    summary: Summary | None
    recorded: Recorded
    phase: Phase
    series: Series
    step: int
    edge: Edges
    count: Counts
    forced: list[tuple[str, int]]
    events: list[Event]
    severities: dict[str, int]

    @property
    def machine(self) -> Machine:
        """The host and the daemon."""
        return self.folder.machine

    @property
    def shadow(self) -> bool:
        """Whether the daemon acted on nothing."""
        return self.machine.mode == "observe"

    def get(self, name: str) -> float | None:
        """A metric, in shadow mode also under its name as an estimate; None if there is none."""
        metrics = self.recorded.metrics
        found = metrics.get(name) or metrics.get(f"{name}_estimated")
        return found[0] if found else None

    @property
    def sound(self) -> bool:
        """Whether what was saved kept the bound on average, while it was saved."""
        return self.keeps(self.get("loss_mean"))

    def keeps(self, loss: float | None) -> bool:
        """Whether a latency so much above full speed's keeps the bound, as far as it is known."""
        plf = self.recorded.run.plf
        return soundness.sound(None if loss is None or not plf else loss <= plf, None)

    def has(self, column: str) -> bool:
        """Whether a column of the series has any value."""
        return bool(np.isfinite(self.series[column]).any())


def gather(path: Path) -> Governed:
    """Read a governor's result folder, deriving first what is not. Raises ResultError."""
    folder = GovernorFolder(path)
    folder.refresh()
    recorded, phase = folder.recorded()
    windows = recorded.metrics["windows"][0]
    step = max(1, -(-int(windows) // POINTS))
    sql = _POINTS.format(
        start_ns=phase.start_monotonic_ns, step=step, means=",\n    ".join(_means(folder.groups))
    )
    histogram = folder.query(_HISTOGRAM)
    forced = folder.query(_FORCED)
    newest: deque[Event] = deque(maxlen=EVENTS_SHOWN)
    severities: Counter[str] = Counter()
    for event in folder.events():
        newest.append(event)
        severities[event.severity] += 1
    return Governed(
        folder,
        folder.summary(),
        recorded,
        phase,
        folder.query(sql),
        step,
        histogram["edge"],
        histogram["amount"].astype(np.uint64),
        [(str(text), int(n)) for text, n in zip(forced["forced"], forced["windows"], strict=True)],
        list(newest),
        dict(severities),
    )


def _means(groups: list[str]) -> list[str]:
    """SQL of the columns that are averaged over a point's time."""
    names = [*MEANS, *(f"{kind}_{g}" for kind in ("cores", "frequency_hz") for g in groups)]
    means = [_MEAN.format(column=quoted(name), name=quoted(name)) for name in names]
    shares = [_SHARE.format(number=at, name=name) for at, name in enumerate(STATE_SHARES)]
    return means + shares
