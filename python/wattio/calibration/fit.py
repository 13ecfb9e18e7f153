"""The coefficients of the power model from measured points, by linear regression.

The model is `P = rest + n (core + core_frequency phi) + b (busy + busy_frequency phi) + io k`: each
coefficient has a column of `Point`, and ordinary least squares finds them. PACER's section V does
the same with delta (per frequency), P_core and P_rest, and asks for R^2 above 0.99.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattio.calibration.points import Point
from wattio.errors import WattioError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

R_SQUARED_ASKED = 0.99
"""PACER, section V: every regression there exceeds it."""

TERMS = {
    "rest": None,
    "busy": "busy",
    "busy_frequency": "busy_phi",
    "core": "active",
    "core_frequency": "active_phi",
    "io": "kiops",
}
"""The column of each coefficient; of two that cannot be told apart, the earlier one is fitted."""

POINTS_LEAST = 3
"""A line through two points fits however wrong they are."""

OWN_SHARE_LEAST = 0.02
"""A column with less of its own than this (as length, beside the others) tells nothing reliable."""

KIOPS_SPREAD_LEAST = 0.05
"""Below it, the readers were not seen: their folder is on no disk of this host."""

IDLE_USE_MOST = 0.1
"""Idle points that are busier than this were not idle: other work ran."""

DRIFT_SHARE_MOST = 0.02
"""Drift of more than this share of the range of power is said."""


class CalibrationFailed(WattioError):  # noqa: N818 (what happened, not a fault of ours)
    """No model can be made of the points: why."""


@dataclass(frozen=True)
class Fitted:
    """A coefficient in watts with its 95 % interval; `at_bound`: it would have been negative."""

    watts: float
    low_w: float
    high_w: float
    at_bound: bool = False


@dataclass(frozen=True)
class Unidentified:
    """A coefficient that the points do not tell. `merged_into` are those that hold its watts."""

    watts: float
    why: str
    merged_into: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drift:
    """How the residuals of the idle points go with time, over the whole of it, in watts."""

    watts: float
    low_w: float
    high_w: float
    matters: bool


@dataclass(frozen=True)
class Fit:
    """What the points say. `residuals_w` are measured less fitted, one for each of `points`."""

    points: tuple[Point, ...]
    coefficients: dict[str, Fitted | Unidentified]
    r_squared: float
    residuals_w: tuple[float, ...]
    deviation_w: float
    drift: Drift | None

    @property
    def idle_use(self) -> float | None:
        """The share of their time that cores were busy at the idle points; None without one."""
        idle = [point for point in self.points if point.is_idle and point.active]
        return sum(p.busy / p.active for p in idle) / len(idle) if idle else None

    @property
    def is_good(self) -> bool:
        """Whether R^2 is above what PACER asks for."""
        return self.r_squared > R_SQUARED_ASKED


def fit(points: Sequence[Point], io_assumed_w: float) -> Fit:
    """Fit the model to the points that have a power; needs NumPy and SciPy.

    Coefficients are not negative. Intervals are those of ordinary least squares with Student's t
    (two-sided, 95 %), cut at zero; that of a coefficient at its bound reaches from zero to the
    upper end it has without the bound. `io_assumed_w` (watts for a thousand I/Os per second) is
    taken where no I/O was swept. Raises CalibrationFailed where there are too few points, or the
    power never changes.
    """
    import numpy as np

    used = tuple(point for point in points if point.power_w is not None)
    if len(used) < POINTS_LEAST:
        raise CalibrationFailed(f"too few points for any model: {len(used)} with a power")
    power = np.array([point.power_w for point in used], dtype=float)
    columns = {name: _column(used, of) for name, of in TERMS.items()}
    kept, left = _separable(columns, io_assumed_w, any(point.readers for point in used))
    if len(used) < len(kept) + 2:
        raise CalibrationFailed(
            f"{len(used)} points with a power are too few for {len(kept)} coefficients;"
            f" it takes {len(kept) + 2}"
        )
    if "io" in left:
        power = power - left["io"].watts * columns["io"]
    if np.ptp(power) <= 1e-9 * max(1.0, float(np.abs(power).max())):
        least, most = float(columns["busy"].min()), float(columns["busy"].max())
        raise CalibrationFailed(
            f"the meter reported {power[0]:g} W at every setting, with {least:.2f} to {most:.2f}"
            " cores busy: it is frozen, measures something else, or other work kept the host busy"
        )
    matrix = np.column_stack([columns[name] for name in kept])
    found, fitted = _regressed(matrix, power, kept)
    residuals = power - fitted
    unexplained = float(residuals @ residuals)
    deviation_w = math.sqrt(unexplained / (len(used) - len(kept)))
    order = [name for name in ("rest", "core", "core_frequency", "busy", "busy_frequency", "io")]
    told: dict[str, Fitted | Unidentified] = {**found, **left}
    return Fit(
        points=used,
        coefficients={name: told[name] for name in order},
        r_squared=1 - unexplained / float(((power - power.mean()) ** 2).sum()),
        residuals_w=tuple(residuals.tolist()),
        deviation_w=deviation_w,
        drift=_drift(used, residuals, float(np.ptp(fitted))),
    )


def _column(points: Sequence[Point], of: str | None) -> NDArray[np.float64]:
    import numpy as np

    if of is None:
        return np.ones(len(points))
    return np.array([getattr(point, of) for point in points], dtype=float)


def _separable(
    columns: dict[str, NDArray[np.float64]], io_assumed_w: float, with_io: bool
) -> tuple[list[str], dict[str, Unidentified]]:
    """The coefficients that the points can tell apart, and the others with the reason."""
    import numpy as np

    kept: list[str] = []
    left: dict[str, Unidentified] = {}
    for name, column in columns.items():
        # Without a load of its own it would be told by what else goes with the host's other I/O.
        if name == "io" and not (with_io and np.ptp(column) >= KIOPS_SPREAD_LEAST):
            why = "hardly any I/O was seen" if with_io else "no I/O was swept"
            left[name] = Unidentified(io_assumed_w, f"{why}; the assumed value stands")
            continue
        length = float(np.linalg.norm(column))
        if length == 0:
            left[name] = Unidentified(0.0, "nothing of it was ever seen")
            continue
        if not kept:
            kept.append(name)
            continue
        others = np.column_stack([columns[other] for other in kept])
        shares = np.linalg.lstsq(others, column, rcond=None)[0]
        own = float(np.linalg.norm(column - others @ shares)) / length
        if own >= OWN_SHARE_LEAST:
            kept.append(name)
            continue
        parts = np.abs(shares) * np.linalg.norm(others, axis=0) / length
        into = tuple(other for other, part in zip(kept, parts, strict=True) if part > 0.1)
        why = f"the sweep cannot separate it from {' and '.join(into)}, which includes its watts"
        left[name] = Unidentified(0.0, why, into)
    return kept, left


def _regressed(
    matrix: NDArray[np.float64], power: NDArray[np.float64], names: Sequence[str]
) -> tuple[dict[str, Fitted], NDArray[np.float64]]:
    """Coefficients with intervals, and the power that they give at each point."""
    import numpy as np
    from scipy.optimize import nnls

    # Columns of one length: the solver then sees numbers of one size.
    lengths = np.linalg.norm(matrix, axis=0)
    scaled = matrix / lengths
    solution = nnls(scaled, power)[0]
    free = solution > 0
    high_w = _ends(scaled, power)[1] / lengths
    low_free, high_free = _ends(scaled[:, free], power)
    low_w = np.zeros(len(names))
    low_w[free] = np.maximum(low_free / lengths[free], 0.0)
    high_w[free] = high_free / lengths[free]
    watts = solution / lengths
    found = {
        name: Fitted(
            float(watts[at]),
            float(min(low_w[at], watts[at])),
            float(max(high_w[at], watts[at], 0.0)),
            at_bound=not free[at],
        )
        for at, name in enumerate(names)
    }
    return found, scaled @ solution


def _ends(
    matrix: NDArray[np.float64], power: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of the 95 % interval of each coefficient of an unbounded regression."""
    import numpy as np
    from scipy.special import stdtrit

    found = np.linalg.lstsq(matrix, power, rcond=None)[0]
    residuals = power - matrix @ found
    freedom = len(power) - matrix.shape[1]
    variance = float(residuals @ residuals) / freedom
    spread = np.sqrt(variance * np.diag(np.linalg.pinv(matrix.T @ matrix)))
    reach = float(stdtrit(freedom, 0.975)) * spread
    return found - reach, found + reach


def _drift(points: Sequence[Point], residuals: NDArray[np.float64], range_w: float) -> Drift | None:
    """The slope of the idle points' residuals over time; None with fewer than three of them.

    Residuals, since an idle host is never quite idle, and what it did meanwhile is accounted for.
    """
    import numpy as np

    idle = [at for at, point in enumerate(points) if point.is_idle]
    middles = np.array([(point.start_s + point.end_s) / 2 for point in points])
    if len(idle) < 3 or np.ptp(middles[idle]) == 0:
        return None
    span_s = float(np.ptp(middles))
    since = (middles[idle] - middles[idle].mean()) / span_s
    matrix = np.column_stack([np.ones(len(idle)), since])
    low, high = _ends(matrix, residuals[idle])
    watts = float((low[1] + high[1]) / 2)
    sure = low[1] > 0 or high[1] < 0
    matters = bool(sure and abs(watts) > DRIFT_SHARE_MOST * range_w)
    return Drift(watts, float(low[1]), float(high[1]), matters)
