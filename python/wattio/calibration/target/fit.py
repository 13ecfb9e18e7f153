"""Demands of a target from measured points.

A reactor that sleeps is woken by the first request that comes, and takes what came meanwhile along.
So the processor time of a request is

    c = a + b bytes + W p

with `p` how often a reactor was woken for each request, which the kernel counts, and `W` the work
of waking. How often that is follows from the rate `l` of one reactor, the service time
`s = a + b bytes` and the time `D` until a woken reactor runs, by an M/G/1 queue with setup
`T = D + W` (P. D. Welch, Operations Research 12, 1964; the share of arrivals that find it idle by
the mean length of a cycle):

    p = (1 - l s) / (1 + l T)
    E[latency] = N + s + l E[s^2] / (2 (1 - l s)) + (2 T + l T^2) / (2 (1 + l T))

`N` is what is neither of the two: sockets, and the client. A read that a device answers passes the
reactor twice, each time for half of its service time (assumed), with the device's time in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from wattio.calibration.fit import CalibrationFailed
from wattio.calibration.target.points import DURABLE, MISS, MIX, READ, WRITE, Point

VARIATION = 0.3
"""Coefficient of variation of a reactor's service time: assumed."""

READS_LEAST = 3
"""Rates of reads from memory that it takes to tell waking from working."""

SOFT = 0.1
"""Relative residuals beyond it count by their size and not its square: others' work on the host."""

_BUSY_MOST = 0.98


@dataclass(frozen=True)
class Demand:
    """Microseconds of a request by its size: `fixed_us + us_per_byte bytes`."""

    fixed_us: float
    us_per_byte: float

    def at(self, size_bytes: float) -> float:
        """For a request of a size."""
        return self.fixed_us + self.us_per_byte * size_bytes


@dataclass(frozen=True)
class Residual:
    """A point with what the fit says of it; the latency of buffered writes is not fitted to."""

    point: Point
    demand_us: float
    latency_us: float


@dataclass(frozen=True)
class Fit:
    """Processor demand by kind, waking, the rest of the latency, and the device's time by kind."""

    demands: Mapping[str, Demand]
    wake_work_us: float
    wake_wait_us: float
    network_us: float
    device: Mapping[str, Demand]
    device_variation: float
    residuals: tuple[Residual, ...]

    @property
    def demand_error(self) -> float:
        """Median of the relative residuals of the processor time."""
        return _median_error((one.demand_us, one.point.demand_us) for one in self.residuals)

    @property
    def latency_error(self) -> float:
        """Median of the relative residuals of the latency."""
        return _median_error((one.latency_us, one.point.latency_us) for one in self.residuals)


def fit(points: Sequence[Point], reactors: int) -> Fit:
    """Fit the points (none that are held out). Raises CalibrationFailed where they do not do."""
    kinds = [kind for kind in (READ, WRITE, MISS, DURABLE) if any(p.kind == kind for p in points)]
    reads = [point for point in points if point.kind == READ]
    if len({point.rate_per_s for point in reads}) < READS_LEAST:
        raise CalibrationFailed(
            f"reads from memory at {READS_LEAST} rates are needed to tell waking from working"
        )
    if MISS not in kinds or not {WRITE, DURABLE} & set(kinds):
        lacks = "reads of the device" if MISS not in kinds else "writes"
        raise CalibrationFailed(f"there are no points of {lacks}")
    used = [point for point in points if point.kind != MIX]
    wake_work_us, demands = _demands(used, kinds)
    wait_us, network_us = _waking(reads, demands[READ], wake_work_us, reactors)

    def inside(point: Point) -> float:
        setup_us = wait_us + wake_work_us
        return network_us + _passing(point, demands[point.kind], setup_us, reactors)

    device = {
        kind: _by_size([(p, max(p.latency_us - inside(p), 1.0)) for p in used if p.kind == kind])
        for kind in (MISS, DURABLE)
        if kind in kinds
    }
    return Fit(
        demands=demands,
        wake_work_us=wake_work_us,
        wake_wait_us=wait_us,
        network_us=network_us,
        device=device,
        device_variation=_variation(used, device),
        residuals=tuple(
            Residual(
                point,
                demands[point.kind].at(point.size_bytes) + wake_work_us * point.woken,
                inside(point)
                + (device[point.kind].at(point.size_bytes) if point.kind in device else 0.0),
            )
            for point in used
        ),
    )


def woken(rate_per_s: float, service_us: float, setup_us: float) -> float:
    """Share of the requests that find their reactor asleep."""
    rate = rate_per_s / 1e6
    return max(1 - rate * service_us, 0.0) / (1 + rate * setup_us)


def passing_us(rate_per_s: float, service_us: float, setup_us: float) -> float:
    """Mean time from coming to a reactor to the end of the service, in microseconds."""
    rate = rate_per_s / 1e6
    idle = 1 - min(rate * service_us, _BUSY_MOST)
    queued = rate * (1 + VARIATION**2) * service_us**2 / (2 * idle)
    waking = (2 * setup_us + rate * setup_us**2) / (2 * (1 + rate * setup_us))
    return service_us + queued + waking


def _passing(point: Point, demand: Demand, setup_us: float, reactors: int) -> float:
    """Time of a request in the reactors, on all its ways through them."""
    ways = 2 if point.kind in (MISS, DURABLE) else 1
    rate = ways * point.rate_per_s / reactors
    return ways * passing_us(rate, demand.at(point.size_bytes) / ways, setup_us)


def _demands(points: Sequence[Point], kinds: Sequence[str]) -> tuple[float, dict[str, Demand]]:
    """The work of waking, and the demand of each kind."""
    columns = np.zeros((len(points), 1 + 2 * len(kinds)))
    for row, point in enumerate(points):
        at = 1 + 2 * kinds.index(point.kind)
        columns[row, 0] = point.woken
        columns[row, at : at + 2] = 1.0, point.size_bytes / 4096
    found = _solve(columns, np.array([point.demand_us for point in points]))
    pairs = found[1:].reshape(-1, 2).tolist()
    demands = {
        kind: Demand(fixed, per_block / 4096)
        for kind, (fixed, per_block) in zip(kinds, pairs, strict=True)
    }
    return float(found[0]), demands


def _by_size(pairs: Sequence[tuple[Point, float]]) -> Demand:
    """A time by the size of the requests."""
    columns = np.array([[1.0, point.size_bytes / 4096] for point, _ in pairs])
    fixed, per_block = _solve(columns, np.array([value for _, value in pairs])).tolist()
    return Demand(fixed, per_block / 4096)


def _solve(columns: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficients of 0 or more that are least wrong in proportion to the values."""
    if len({tuple(row) for row in columns[:, -1:].tolist()}) == 1 and columns.shape[1] == 2:
        # One size only: nothing tells what grows with it.
        return np.array([float(np.median(values)), 0.0])
    scaled = columns / values[:, None]
    begin = np.full(columns.shape[1], float(np.median(values)) / columns.shape[1])
    found = least_squares(
        lambda x: scaled @ x - 1,
        begin,
        jac=lambda _: scaled,
        bounds=(0, np.inf),
        x_scale=np.maximum(begin, 1e-9),
        loss="soft_l1",
        f_scale=SOFT,
    )
    return np.asarray(found.x, dtype=np.float64)


def _waking(
    reads: Sequence[Point], demand: Demand, work_us: float, reactors: int
) -> tuple[float, float]:
    """Until a woken reactor runs, and what is left of the latency: by both equations at once."""

    def wrong(guess: NDArray[np.float64]) -> list[float]:
        wait_us, network_us = guess.tolist()
        found = []
        for point in reads:
            service_us, rate = demand.at(point.size_bytes), point.rate_per_s / reactors
            setup_us = wait_us + work_us
            spent_us = service_us + work_us * woken(rate, service_us, setup_us)
            latency_us = network_us + passing_us(rate, service_us, setup_us)
            found.append(spent_us / point.demand_us - 1)
            found.append(latency_us / point.latency_us - 1)
        return found

    found = least_squares(wrong, [10.0, 5.0], bounds=(0, np.inf), loss="soft_l1", f_scale=SOFT)
    wait_us, network_us = found.x.tolist()
    return wait_us, network_us


def _variation(points: Sequence[Point], device: Mapping[str, Demand]) -> float:
    """Coefficient of variation of the device's time: all that varies in a read of it, up to 1."""
    shares = [
        point.deviation_us / device[MISS].at(point.size_bytes)
        for point in points
        if point.kind == MISS
    ]
    return min(float(np.median(shares)), 1.0)


def _median_error(pairs: object) -> float:
    values = [abs(ours / theirs - 1) for ours, theirs in pairs]  # type: ignore[attr-defined]
    return float(np.median(values))
