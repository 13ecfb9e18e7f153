"""How evenly readings came, how often a meter has something new, and how late it tells of a load.

Pure functions of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wattio.meters.samples import Samples

STEP_SHARE_MIN = 0.5
"""A step explains at least this share of the variance, or none is visible."""


@dataclass(frozen=True)
class Timing:
    """How readings came: their period, and how far single ones are off it (jitter)."""

    samples: int
    span_s: float
    period_ms_median: float | None
    jitter_ms_p99: float | None
    gap_ms_max: float | None
    gaps: int

    def as_json(self) -> dict[str, float | int | None]:
        """As plain data."""
        return dict(self.__dict__)


def timing(samples: Samples, period_s: float) -> Timing:
    """How evenly readings came, where one was due every `period_s` seconds.

    Jitter is the distance of a step from the period; a gap is a step of more than two periods.
    """
    import numpy as np

    count = len(samples)
    if count < 2:
        return Timing(count, 0.0, None, None, None, 0)
    steps_ms = np.diff(samples.monotonic_ns) / 1e6
    jitter_ms = np.abs(steps_ms - period_s * 1e3)
    return Timing(
        samples=count,
        span_s=float(samples.monotonic_ns[-1] - samples.monotonic_ns[0]) / 1e9,
        period_ms_median=float(np.median(steps_ms)),
        jitter_ms_p99=float(np.percentile(jitter_ms, 99)),
        gap_ms_max=float(steps_ms.max()),
        gaps=int((steps_ms > 2e3 * period_s).sum()),
    )


@dataclass(frozen=True)
class Updates:
    """How often a meter had something new, by its mark, or else by its power."""

    by: str
    changes: int
    period_ms_p10: float | None
    period_ms_median: float | None
    period_ms_p90: float | None

    def as_json(self) -> dict[str, float | int | str | None]:
        """As plain data."""
        return dict(self.__dict__)


def updates(samples: Samples) -> Updates:
    """The time between changes of what a meter says."""
    import numpy as np

    marked = bool(np.isfinite(samples.mark).any())
    values = samples.mark if marked else samples.power_w
    present = np.isfinite(values)
    values, times_ns = values[present], samples.monotonic_ns[present]
    at = np.flatnonzero(np.diff(values) != 0) + 1
    by = "mark" if marked else "power"
    if len(at) < 2:
        return Updates(by, len(at), None, None, None)
    steps_ms = np.diff(times_ns[at]) / 1e6
    low, middle, high = (float(value) for value in np.percentile(steps_ms, [10, 50, 90]))
    return Updates(by, len(at), low, middle, high)


@dataclass(frozen=True)
class Step:
    """A meter's answer to a load that began: how late, from what to what power."""

    lag_s: float
    before_w: float
    after_w: float
    explained_share: float


def find_step(samples: Samples, load_start_ns: int, load_end_ns: int) -> Step | None:
    """Fit two levels to the power around the beginning of a load; None if there is no step.

    The place of the step is where two means explain most of the variance (least squares), looked
    for from the beginning of the load to its end; the lag is its distance from that beginning. The
    span before the beginning should be as long as the load.
    """
    import numpy as np

    within = (samples.monotonic_ns <= load_end_ns) & np.isfinite(samples.power_w)
    times_ns, power_w = samples.monotonic_ns[within], samples.power_w[within]
    first = int(np.searchsorted(times_ns, load_start_ns))
    total = float(((power_w - power_w.mean()) ** 2).sum()) if len(power_w) else 0.0
    if first < 3 or len(power_w) - first < 3 or total <= 0:
        return None
    at, rest = _best_split(power_w, first)
    before_w, after_w = float(power_w[:at].mean()), float(power_w[at:].mean())
    explained = 1.0 - rest / total
    if explained < STEP_SHARE_MIN or after_w <= before_w:
        return None
    # The step lies between two readings.
    middle_ns = (int(times_ns[at - 1]) + int(times_ns[at])) / 2
    return Step(max(0.0, (middle_ns - load_start_ns) / 1e9), before_w, after_w, explained)


def _best_split(power_w: NDArray[np.float64], first: int) -> tuple[int, float]:
    """The place from `first` on at which two means leave the least sum of squares, and that sum."""
    import numpy as np

    count = len(power_w)
    at = np.arange(first, count - 1)
    sums, squares = np.cumsum(power_w), np.cumsum(power_w**2)
    left = squares[at - 1] - sums[at - 1] ** 2 / at
    right = squares[-1] - squares[at - 1] - (sums[-1] - sums[at - 1]) ** 2 / (count - at)
    best = int(np.argmin(left + right))
    return int(at[best]), float(left[best] + right[best])
