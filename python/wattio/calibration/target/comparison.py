"""The simulator's prediction of latency and busy processors beside what was measured.

The loads are those that the fit has not seen. Each is simulated under the law `native` with Poisson
arrivals at the rate that was asked for; what was measured is the median over the
quieter half of the repetitions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from wattio.calibration.target.points import READ, Point, quieter
from wattio.calibration.target.quiet_windows import QUIET_ENOUGH
from wattio.simulator.native import NativeSimulator
from wattio.simulator.simulation import Request

BOUND = 0.10
"""The deviation that is asked for."""
HOST, APART, RECORDS, MODEL = "host", "apart", "records", "model"
WHY = {
    HOST: "others kept the server or the client waiting for a core most of the time",
    APART: "the prediction lies between what the repetitions measured, which are that far apart",
    RECORDS: "the writes of 5 ms share a record of the log, and few of them in it cost more each",
    MODEL: "the description does not explain it",
}
_WARMUP_S = 0.2
_REQUESTS = 200_000
"""So many are simulated for each load, about."""


@dataclass(frozen=True)
class Compared:
    """One load: measured (with the least and the most of these repetitions) and predicted."""

    kind: str
    size_bytes: int
    read_share: float
    rate_per_s: float
    share: float
    latency_us: float
    latency_range_us: tuple[float, float]
    latency_predicted_us: float
    busy: float
    busy_range: tuple[float, float]
    busy_predicted: float
    wait_share: float
    kept_share: float

    @property
    def latency_off(self) -> float:
        """Relative deviation of the prediction."""
        return self.latency_predicted_us / self.latency_us - 1

    @property
    def busy_off(self) -> float:
        """Relative deviation of the prediction."""
        return self.busy_predicted / self.busy - 1

    @property
    def is_within(self) -> bool:
        """Whether both are within what is asked for."""
        return not self._wrong()

    @property
    def why(self) -> str:
        """What is known of why it is off, `HOST` and so on; `MODEL` where nothing else is."""
        wrong = self._wrong()
        if not wrong:
            return ""
        if self.kept_share < QUIET_ENOUGH:
            return HOST
        if all(least <= predicted <= most for predicted, (least, most) in wrong):
            return APART
        return RECORDS if self.read_share < 1 and self.busy_off < -BOUND else MODEL

    def _wrong(self) -> list[tuple[float, tuple[float, float]]]:
        """What is off: predicted, and the least and the most that was measured."""
        both = (
            (self.latency_off, self.latency_predicted_us, self.latency_range_us),
            (self.busy_off, self.busy_predicted, self.busy_range),
        )
        return [(predicted, ends) for off, predicted, ends in both if abs(off) > BOUND]


def compare(
    server: Path,
    points: Sequence[Point],
    saturated_per_s: Callable[[Point], float],
    cancelled: threading.Event | None = None,
) -> list[Compared]:
    """Simulate what was measured, each load once. Raises InputError, Cancelled."""
    groups: dict[tuple[str, float], list[Point]] = {}
    for point in (point for point in points if point.tells):
        groups.setdefault((point.kind, point.rate_per_s), []).append(point)
    found = []
    for _, all_of in sorted(groups.items(), key=lambda item: (item[0][0] != READ, item[0])):
        group = quieter(all_of)
        first = group[0]
        latency_us, busy = _simulated(server, first, cancelled)
        latencies, busies = [p.latency_us for p in group], [p.busy for p in group]
        found.append(
            Compared(
                kind=first.kind,
                size_bytes=first.size_bytes,
                read_share=first.read_share,
                rate_per_s=first.rate_per_s,
                share=first.rate_per_s / saturated_per_s(first),
                latency_us=median(latencies),
                latency_range_us=(min(latencies), max(latencies)),
                latency_predicted_us=latency_us,
                busy=median(busies),
                busy_range=(min(busies), max(busies)),
                busy_predicted=busy,
                wait_share=median(p.wait_s / p.span_s for p in group),
                kept_share=sum(p.kept for p in group) / sum(p.windows for p in group),
            )
        )
    return found


def _simulated(
    server: Path, point: Point, cancelled: threading.Event | None
) -> tuple[float, float]:
    """Mean latency in microseconds, and cores busy."""
    request = Request(
        server=str(server),
        policy="native",
        load={
            "pattern": "Rand_RW",
            "iops": point.rate_per_s,
            "read_fraction": point.read_share,
            "io_bytes": point.size_bytes,
            "open": True,
        },
        duration_s=min(max(_REQUESTS / point.rate_per_s, 1.0), 60.0),
        warmup_s=_WARMUP_S,
    )
    summary = NativeSimulator().simulate(request, cancelled=cancelled).summary
    return float(summary["latency_us_mean"]), float(sum(summary["cores_busy_clients"]))
