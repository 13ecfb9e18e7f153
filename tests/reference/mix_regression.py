"""The expected latency of a mix of requests, by least squares over all windows at full speed.

Not in the PACER document: the project's addition for loads whose mix changes. The native law keeps
decayed sums and a closed form; here every window is kept and the weighted, damped least-squares
problem is written out and handed to NumPy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Mix = tuple[float, float]
"""Share of reads, and mean size in units of 64 KiB."""

SIZE_UNIT_BYTES = 65536.0
BYTES_MAX = 2.0**30
MEMORY = 0.999
WINDOWS_MIN = 8
DAMPING: NDArray[np.float64] = np.array([0.02, 0.01])
TRANSLATION_MAX = 4.0


def mix_of(read_share: float | None, bytes_mean: float | None) -> Mix | None:
    """The mix, where the source tells all of it and it can be."""
    if read_share is None or not 0.0 <= read_share <= 1.0:
        return None
    if bytes_mean is None or not 0.0 <= bytes_mean <= BYTES_MAX:
        return None
    return (read_share, bytes_mean / SIZE_UNIT_BYTES)


class MixRegression:
    """`l(x) = l_mean + s (x - x_mean)`.

    s minimises `sum_i w_i (l_i - l_mean - s (x_i - x_mean))^2 + sum_i w_i |DAMPING s|^2`, with
    w_i = requests of window i times 0.999 for each window since.
    """

    def __init__(self) -> None:
        self.mixes: list[Mix] = []
        self.latencies_us: list[float] = []
        self.requests: list[int] = []
        self._fit: tuple[NDArray[np.float64], float, NDArray[np.float64]] | None = None

    def learn(self, mix: Mix, latency_us: float, requests: int) -> None:
        self.mixes.append(mix)
        self.latencies_us.append(latency_us)
        self.requests.append(requests)
        self._fit = None

    def fit(self) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
        """Mean mix, mean latency, slope."""
        if self._fit is None:
            x = np.array(self.mixes)
            latency = np.array(self.latencies_us)
            age = np.arange(len(latency) - 1, -1, -1)
            weight = np.array(self.requests, dtype=float) * MEMORY**age
            x_mean = np.average(x, axis=0, weights=weight)
            l_mean = float(np.average(latency, weights=weight))
            root = np.sqrt(weight / weight.sum())
            rows = np.vstack([root[:, None] * (x - x_mean), np.diag(DAMPING)])
            right = np.concatenate([root * (latency - l_mean), np.zeros(2)])
            slope = np.linalg.lstsq(rows, right, rcond=None)[0]
            self._fit = (x_mean, l_mean, slope)
        return self._fit

    def expected_us(self, mix: Mix) -> float:
        """Expected latency, at least a tenth of the mean."""
        x_mean, l_mean, slope = self.fit()
        return max(l_mean + float(slope @ (np.array(mix) - x_mean)), 0.1 * l_mean)

    def translation(self, source: Mix | None, target: Mix | None) -> float:
        """Expected latency of one mix over that of another; 1 while too little is known."""
        if source is None or target is None or len(self.mixes) < WINDOWS_MIN:
            return 1.0
        ratio = self.expected_us(target) / self.expected_us(source)
        return min(max(ratio, 1.0 / TRANSLATION_MAX), TRANSLATION_MAX)
