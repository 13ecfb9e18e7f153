"""Power over time and its spread, from a session's samples: one pass, a piece at a time.

Times are seconds of the monotonic clock less the meter's lag: those of the power that a sample
tells of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattio.errors import ResultError, storage_reason
from wattio.kinds.measurement.folder import MeasurementFolder

Series = NDArray[np.float64]
Stretch = tuple[float, float]
"""Start and end in seconds."""

SUM = ""
"""In the place of a label: the sum over all totals."""

POINTS = 1000
"""Most points of a curve: about one for each pixel of a figure."""

_PIECE_ROWS = 1 << 20
_GAPS_MAX = 5000
_ENDS = """SELECT min(file_row_number), max(file_row_number)
    FROM read_parquet('{path}', file_row_number = true) WHERE meter = ?"""
_PIECE = """SELECT monotonic_ns, power_w FROM read_parquet('{path}', file_row_number = true)
    WHERE meter = ? AND file_row_number BETWEEN ? AND ?"""


@dataclass(frozen=True)
class Asked:
    """A meter to look at: its label, lag, and how long it may say nothing."""

    label: str
    lag_s: float
    gap_s: float
    total: bool


@dataclass(frozen=True)
class Curve:
    """Power over a stretch in at most `POINTS` points: mean time, least, mean and most of each."""

    time_s: Series
    low_w: Series
    mean_w: Series
    high_w: Series
    samples: int

    @property
    def binned(self) -> bool:
        """Whether a point stands for more than one sample."""
        return self.samples > len(self.time_s)


@dataclass
class Looked:
    """What was found in a session.

    `curves` by label (`SUM` where there are several totals) and number of the stretch; `gaps` by
    label; `values_w` the samples of the totals' sum, by the spans' keys.
    """

    curves: dict[tuple[str, int], Curve] = field(default_factory=dict)
    gaps: dict[str, list[Stretch]] = field(default_factory=dict)
    values_w: dict[str, list[Series]] = field(default_factory=dict)


def look(
    folder: MeasurementFolder,
    session: str,
    meters: Sequence[Asked],
    stretches: Sequence[Stretch],
    spans: Sequence[tuple[str, Stretch]],
) -> Looked:
    """Curves over stretches, gaps, and the samples within spans. Raises ResultError."""
    found = Looked()
    totals = [meter for meter in meters if meter.total]
    others = [_whole(folder, session, meter) for meter in totals[1:]]
    for meter in meters:
        first = bool(totals) and meter is totals[0]
        bins = [_Bins(*stretch) for stretch in stretches]
        sums = [_Bins(*stretch) for stretch in stretches] if first and others else []
        gaps: list[Stretch] = []
        before_s: float | None = None
        for time_s, power_w in _pieces(folder, session, meter):
            gaps += _gaps(time_s, before_s, meter.gap_s)
            before_s = float(time_s[-1])
            known = ~np.isnan(power_w)
            if not known.all():
                time_s, power_w = time_s[known], power_w[known]
            for each in bins:
                each.add(time_s, power_w)
            if first:
                power_w = _with_others(time_s, power_w, others)
                _keep(found.values_w, spans, time_s, power_w)
            for each in sums:
                each.add(time_s, power_w)
        found.gaps[meter.label] = gaps[:_GAPS_MAX]
        found.curves |= {(meter.label, n): each.curve() for n, each in enumerate(bins)}
        found.curves |= {(SUM, n): each.curve() for n, each in enumerate(sums)}
    return found


def _pieces(
    folder: MeasurementFolder, session: str, meter: Asked
) -> Iterator[tuple[Series, Series]]:
    """Times and power of a meter, never all at once; NaN where a sample has no power."""
    path = folder.path / "samples" / f"{session}.parquet"
    if not path.exists():
        recorded = folder.samples(session).get(meter.label)
        if recorded is not None and len(recorded):
            yield recorded.monotonic_ns / 1e9 - meter.lag_s, recorded.power_w
        return
    import duckdb

    text = str(path).replace("'", "''")
    try:
        with duckdb.connect() as connection:
            # Threads hold row groups each; one is fast enough and holds the least.
            connection.execute("SET threads = 1")
            ends = connection.execute(_ENDS.format(path=text), [meter.label]).fetchone()
            if ends is None or ends[0] is None:
                return
            for start in range(ends[0], ends[1] + 1, _PIECE_ROWS):
                last = min(start + _PIECE_ROWS - 1, ends[1])
                query = connection.execute(_PIECE.format(path=text), [meter.label, start, last])
                columns = query.fetchnumpy()
                power_w = np.ma.filled(columns["power_w"].astype(np.float64), np.nan)
                if len(power_w):
                    yield columns["monotonic_ns"] / 1e9 - meter.lag_s, power_w
    except duckdb.Error as error:
        raise ResultError(f"{path}: cannot be read: {storage_reason(error)}") from error


def _whole(folder: MeasurementFolder, session: str, meter: Asked) -> tuple[Series, Series]:
    """All samples of a meter that have a power."""
    pieces = list(_pieces(folder, session, meter))
    if not pieces:
        return np.empty(0), np.empty(0)
    time_s, power_w = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    known = ~np.isnan(power_w)
    return time_s[known], power_w[known]


def _with_others(
    time_s: Series, power_w: Series, others: Sequence[tuple[Series, Series]]
) -> Series:
    """The sum of the totals at the first one's samples, as the metrics take it."""
    for other_s, other_w in others:
        if other_s.size:
            power_w = power_w + np.interp(time_s, other_s, other_w)
    return power_w


def _keep(
    values_w: dict[str, list[Series]],
    spans: Sequence[tuple[str, Stretch]],
    time_s: Series,
    power_w: Series,
) -> None:
    """Put the samples within each span aside, in half the room: they are only drawn."""
    for key, (start_s, end_s) in spans:
        first = int(np.searchsorted(time_s, start_s, "left"))
        last = int(np.searchsorted(time_s, end_s, "right"))
        if last > first:
            values_w.setdefault(key, []).append(power_w[first:last].astype(np.float32))


def _gaps(time_s: Series, before_s: float | None, gap_s: float) -> list[Stretch]:
    """Stretches without a sample that are longer than allowed."""
    if before_s is not None:
        time_s = np.concatenate([[before_s], time_s])
    places = np.flatnonzero(np.diff(time_s) > gap_s)
    return [(float(time_s[at]), float(time_s[at + 1])) for at in places]


class _Bins:
    """Sums over equal parts of a stretch."""

    def __init__(self, start_s: float, end_s: float) -> None:
        self._start_s, self._end_s = start_s, end_s
        self._count = np.zeros(POINTS, dtype=np.int64)
        self._time_s, self._sum_w = np.zeros(POINTS), np.zeros(POINTS)
        self._low_w, self._high_w = np.full(POINTS, np.inf), np.full(POINTS, -np.inf)

    def add(self, time_s: Series, power_w: Series) -> None:
        first = int(np.searchsorted(time_s, self._start_s, "left"))
        last = int(np.searchsorted(time_s, self._end_s, "right"))
        if last <= first:
            return
        time_s, power_w = time_s[first:last], power_w[first:last]
        share = (time_s - self._start_s) / max(self._end_s - self._start_s, 1e-9)
        place = np.minimum((share * POINTS).astype(np.int64), POINTS - 1)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(place)) + 1])
        where = place[starts]
        self._count[where] += np.diff(np.append(starts, place.size))
        self._time_s[where] += np.add.reduceat(time_s - self._start_s, starts)
        self._sum_w[where] += np.add.reduceat(power_w, starts)
        low_w, high_w = np.minimum.reduceat(power_w, starts), np.maximum.reduceat(power_w, starts)
        self._low_w[where] = np.minimum(self._low_w[where], low_w)
        self._high_w[where] = np.maximum(self._high_w[where], high_w)

    def curve(self) -> Curve:
        some = self._count > 0
        count = self._count[some]
        return Curve(
            self._start_s + self._time_s[some] / count,
            self._low_w[some],
            self._sum_w[some] / count,
            self._high_w[some],
            int(count.sum()),
        )
