"""Demands of a target from measured points.

A reactor that sleeps is woken by the first request that comes, and takes what came meanwhile along.
So the processor time of a request is

    c = a + b bytes + p W(l),    W(l) = work + cold / (1 + l cooling)

with `p` how often a reactor was woken for each request, which the kernel counts, and `W` the work
of waking, which is more after a long sleep: the mean of `work + cold (1 - exp(-sleep / cooling))`
where sleeps are as long as the gaps of Poisson arrivals at the rate `l` of one reactor. Small reads
from memory tell it. How often a reactor wakes follows from the service time `s = a + b bytes` and
the time `wait` until a woken reactor runs, by an M/G/1 queue with setup `T = wait + W` (P. D.
Welch, Operations Research 12, 1964; the share of arrivals that find it idle by the mean length of a
cycle):

    p = (1 - l s) / (1 + l T)
    E[latency] = N + s + l E[s^2] / (2 (1 - l s)) + (2 T + l T^2) / (2 (1 + l T))

`N` is what is neither of the two: sockets, and the client. A read that a device answers passes the
reactor twice, each time for half of its service time (assumed), with the device's time in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from wattio.calibration.fit import CalibrationFailed
from wattio.calibration.target.points import DURABLE, MISS, MIX, READ, WRITE, Point, quieter

VARIATION = 0.3
"""Coefficient of variation of a reactor's service time: assumed."""

READS_LEAST = 3
"""Rates of reads from memory that it takes to tell waking from working."""

LEAST = 0.05
"""A request takes at least this share of its processor time once its reactor is awake."""

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
class Waking:
    """Of a reactor that sleeps, in microseconds: until it runs, and its work then."""

    wait_us: float
    work_us: float
    cold_us: float
    cooling_us: float

    def work_at(self, rate_per_s: float) -> float:
        """Mean work of waking at a rate of one reactor."""
        return self.work_us + self.cold_us / (1 + rate_per_s * self.cooling_us / 1e6)


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
    waking: Waking
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
    """Fit the points (none that are held out). Raises CalibrationFailed where they do not do.

    Of the repetitions of a load the quieter half counts, and of these the median: others' work on
    the host comes and goes.
    """
    points = typical([point for point in points if point.tells])
    kinds = [kind for kind in (READ, WRITE, MISS, DURABLE) if any(p.kind == kind for p in points)]
    reads = [point for point in points if point.kind == READ]
    if len({point.rate_per_s for point in reads}) < READS_LEAST:
        raise CalibrationFailed(
            f"reads from memory at {READS_LEAST} rates are needed to tell waking from working"
        )
    if MISS not in kinds or not {WRITE, DURABLE} & set(kinds):
        lacks = "reads of the device" if MISS not in kinds else "writes"
        raise CalibrationFailed(f"no points of {lacks}")
    used = [point for point in points if point.kind != MIX]
    waking = _work_of_waking(reads, reactors)
    demands = {
        kind: _by_size(
            [
                (p, max(p.demand_us - _woken_us(p, waking, reactors), LEAST * p.demand_us))
                for p in used
                if p.kind == kind
            ]
        )
        for kind in kinds
    }
    waking, network_us = _wait_of_waking(reads, demands[READ], waking, reactors)

    def inside(point: Point) -> float:
        return network_us + _passing(point, demands[point.kind], waking, reactors)

    device = {
        kind: _by_size([(p, max(p.latency_us - inside(p), 1.0)) for p in used if p.kind == kind])
        for kind in (MISS, DURABLE)
        if kind in kinds
    }
    return Fit(
        demands=demands,
        waking=waking,
        network_us=network_us,
        device=device,
        device_variation=_variation(used, device),
        residuals=tuple(
            Residual(
                point,
                demands[point.kind].at(point.size_bytes) + _woken_us(point, waking, reactors),
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


def _ways(point: Point) -> int:
    """How often a request passes the reactors."""
    return 2 if point.kind in (MISS, DURABLE) else 1


def _passing(point: Point, demand: Demand, waking: Waking, reactors: int) -> float:
    """Time of a request in the reactors, on all its ways through them."""
    ways = _ways(point)
    rate = ways * point.rate_per_s / reactors
    setup_us = waking.wait_us + waking.work_at(rate)
    return ways * passing_us(rate, demand.at(point.size_bytes) / ways, setup_us)


def _woken_us(point: Point, waking: Waking, reactors: int) -> float:
    """Processor time of waking for each request."""
    return point.woken * waking.work_at(_ways(point) * point.rate_per_s / reactors)


def typical(points: Sequence[Point]) -> list[Point]:
    """For each load one point: the medians of what its quieter repetitions say of a request."""
    groups: dict[tuple[str, int, float], list[Point]] = {}
    for point in points:
        groups.setdefault((point.kind, point.size_bytes, point.rate_per_s), []).append(point)
    found = []
    for repetitions in groups.values():
        group = quieter(repetitions)
        requests = sum(point.requests for point in group)
        found.append(
            replace(
                group[0],
                windows=sum(point.windows for point in group),
                kept=sum(point.kept for point in group),
                span_s=sum(point.span_s for point in group),
                requests=requests,
                reactors_s=median(point.demand_us for point in group) * requests / 1e6,
                slices=round(median(point.woken for point in group) * requests),
                latency_us=median(point.latency_us for point in group),
                deviation_us=median(point.deviation_us for point in group),
            )
        )
    return found


def _work_of_waking(reads: Sequence[Point], reactors: int) -> Waking:
    """The work of waking, by the smallest reads: in them it is most of what there is."""
    size_bytes = min(point.size_bytes for point in reads)
    small = [point for point in reads if point.size_bytes == size_bytes]

    def wrong(guess: NDArray[np.float64]) -> list[float]:
        service_us, work_us, cold_us, cooling_us = guess.tolist()
        waking = Waking(0.0, work_us, cold_us, cooling_us)
        return [
            (service_us + _woken_us(point, waking, reactors)) / point.demand_us - 1
            for point in small
        ]

    found = _least(wrong, [3.0, 15.0, 10.0, 100.0], ([0, 0, 0, 10], [1e4, 1e4, 1e4, 1e4]))
    _, work_us, cold_us, cooling_us = found
    return Waking(0.0, work_us, cold_us, cooling_us)


def _by_size(pairs: Sequence[tuple[Point, float]]) -> Demand:
    """A time by the size of the requests; with one size nothing tells what grows with it."""
    if len({point.size_bytes for point, _ in pairs}) == 1:
        return Demand(median(value for _, value in pairs), 0.0)
    columns = np.array([[1.0, point.size_bytes / 4096] for point, _ in pairs])
    fixed, per_block = _solve(columns, np.array([value for _, value in pairs])).tolist()
    return Demand(fixed, per_block / 4096)


def _solve(columns: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficients of 0 or more that are least wrong in proportion to the values."""
    scaled = columns / values[:, None]
    begin = [float(np.median(values)) / columns.shape[1]] * columns.shape[1]
    return np.array(_least(lambda x: (scaled @ x - 1).tolist(), begin, ([0, 0], [np.inf, np.inf])))


def _least(
    wrong: Callable[[NDArray[np.float64]], list[float]],
    begin: list[float],
    bounds: tuple[list[float], list[float]],
) -> list[float]:
    """Where relative residuals are least; those far out count by their size only."""
    scale = np.maximum(begin, 1e-9)
    found = least_squares(wrong, begin, bounds=bounds, x_scale=scale, loss="soft_l1", f_scale=SOFT)
    values: list[float] = found.x.tolist()
    return values


def _wait_of_waking(
    reads: Sequence[Point], demand: Demand, waking: Waking, reactors: int
) -> tuple[Waking, float]:
    """Until a woken reactor runs, and what is left of the latency: by both equations at once.

    A point counts by its share of quiet windows: latency suffers first where others work.
    """

    def wrong(guess: NDArray[np.float64]) -> list[float]:
        wait_us, network_us = guess.tolist()
        found = []
        for point in reads:
            service_us, rate = demand.at(point.size_bytes), point.rate_per_s / reactors
            work_us = waking.work_at(rate)
            setup_us = wait_us + work_us
            spent_us = service_us + work_us * woken(rate, service_us, setup_us)
            latency_us = network_us + passing_us(rate, service_us, setup_us)
            weight = point.kept / max(point.windows, 1)
            found.append(weight * (spent_us / point.demand_us - 1))
            found.append(weight * (latency_us / point.latency_us - 1))
        return found

    wait_us, network_us = _least(wrong, [10.0, 5.0], ([0, 0], [1e5, 1e5]))
    return replace(waking, wait_us=wait_us), network_us


def _variation(points: Sequence[Point], device: Mapping[str, Demand]) -> float:
    """Coefficient of variation of the device's time: all that varies in a read of it, up to 1."""
    shares = [
        point.deviation_us / device[MISS].at(point.size_bytes)
        for point in points
        if point.kind == MISS
    ]
    return min(median(shares), 1.0)


def _median_error(pairs: object) -> float:
    values = [abs(ours / theirs - 1) for ours, theirs in pairs]  # type: ignore[attr-defined]
    return float(np.median(values))
