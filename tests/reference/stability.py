"""Section IV-B of the PACER document: windows of requests, and how far their latency diverges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reference.histograms import Histogram, merged, spread
from reference.ieee import over
from reference.mix_regression import Mix, MixRegression, mix_of

SPREAD = 0.5
"""Standard deviation of latencies over their mean where nobody tells it."""


def l_avg(latencies_us: Sequence[float]) -> float:
    """`l_avg = (1/k) sum_i l_i`."""
    return sum(latencies_us) / len(latencies_us)


def l_div(latencies_us: Sequence[float]) -> float:
    """`l_div = max_i |l_i - l_avg| / l_avg` (lost in print: the project's reading)."""
    mean = l_avg(latencies_us)
    return max(over(abs(latency - mean), mean) for latency in latencies_us)


@dataclass(frozen=True)
class Window:
    """The requests that completed between two steps; what is not known is None."""

    requests: int
    latency_us: float
    bytes_mean: float | None
    read_share: float | None
    in_flight: int | None
    histogram: Histogram | None
    energy_j: Mapping[str, float]
    span_s: float


@dataclass(frozen=True)
class Sample:
    """Windows taken as one; means weigh each window by its requests."""

    windows: tuple[Window, ...]

    def _mean(self, values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        weights = [window.requests for window in self.windows]
        return sum(w * v for w, v in zip(weights, known, strict=True)) / self.requests

    @property
    def requests(self) -> int:
        return sum(window.requests for window in self.windows)

    @property
    def latency_us(self) -> float:
        return self._mean([window.latency_us for window in self.windows]) or 0.0

    @property
    def mix(self) -> Mix | None:
        reads = self._mean([window.read_share for window in self.windows])
        return mix_of(reads, self._mean([window.bytes_mean for window in self.windows]))

    @property
    def in_flight(self) -> float | None:
        """Requests under way at the windows' ends."""
        return self._mean([window.in_flight for window in self.windows])

    @property
    def histogram(self) -> Histogram | None:
        told = [window.histogram for window in self.windows if window.histogram is not None]
        return merged(told) if len(told) == len(self.windows) else None

    @property
    def energy_of_request_j(self) -> dict[str, float]:
        """By each who tells it of all windows."""
        drawn = [window.energy_j for window in self.windows]
        tellers = set(drawn[0]).intersection(*drawn)
        return {by: sum(joules[by] for joules in drawn) / self.requests for by in tellers}

    @property
    def span_s(self) -> float:
        return sum(window.span_s for window in self.windows)

    @property
    def rate(self) -> float:
        """Requests a second."""
        return over(self.requests, self.span_s)

    @property
    def error(self) -> float:
        """One standard deviation of the mean latency, as a share of it: `spread / sqrt(n)`."""
        told = None if self.histogram is None else spread(self.histogram)
        return (SPREAD if told is None else told) / math.sqrt(self.requests)


class Stability:
    """The last k samples; windows with few requests are merged until they have enough."""

    def __init__(self, windows: int, requests_min: int) -> None:
        self.k = windows
        self.requests_min = requests_min
        self.clear()

    def clear(self) -> None:
        self.samples: list[Sample] = []
        self.growing: list[Window] = []
        self.empty_s = 0.0

    def push(
        self, latency: Mapping[str, Any], powers_w: Mapping[str, float], dt_s: float
    ) -> Sample | None:
        """The sample that a window completes, if it does.

        Time without a request counts with the next window that has some, at that window's power.
        """
        if latency["requests"] == 0:
            self.empty_s += dt_s
            return None
        span_s = dt_s + self.empty_s
        histogram = latency.get("histogram")
        window = Window(
            requests=latency["requests"],
            latency_us=latency["latency_us_mean"],
            bytes_mean=latency["bytes_mean"],
            read_share=latency["read_share"],
            in_flight=latency.get("in_flight"),
            histogram=None if histogram is None else merged([histogram]),
            energy_j={by: watts * span_s for by, watts in powers_w.items()},
            span_s=span_s,
        )
        self.empty_s = 0.0
        self.growing.append(window)
        sample = Sample(tuple(self.growing))
        if sample.requests < self.requests_min:
            return None
        self.growing = []
        self.samples.append(sample)
        return sample

    def last(self) -> list[Sample]:
        return self.samples[-self.k :]

    def all_windows(self) -> Sample | None:
        """The last k samples as one, once there are k."""
        if len(self.samples) < self.k:
            return None
        return Sample(tuple(window for sample in self.last() for window in sample.windows))

    def divergence(self, regression: MixRegression) -> float:
        """l_div of the last k samples, each translated to the mix of the last one."""
        mix = self.samples[-1].mix
        translate = regression.translation
        return l_div([s.latency_us * translate(s.mix, mix) for s in self.last()])
