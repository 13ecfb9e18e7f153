"""Samples of a meter as columns, and the file of fixed-size records that they are read from."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattio.errors import ResultError
from wattio.meters.meter import Reading

if TYPE_CHECKING:  # The sampling process packs records and needs no NumPy.
    import numpy as np
    from numpy.typing import NDArray

RECORD = struct.Struct("<qqddd")
"""A reading in a file: utc_ns, monotonic_ns, power_w, energy_j, mark; NaN where there is none."""

COLUMNS = ("utc_ns", "monotonic_ns", "power_w", "energy_j", "mark")
_FORMATS = ("<i8", "<i8", "<f8", "<f8", "<f8")
_NAN = float("nan")


@dataclass(frozen=True)
class Samples:
    """Readings of one meter in order of time, one array for each part of a `Reading`.

    An absent value is NaN, which arrays have nothing else for.
    """

    utc_ns: NDArray[np.int64]
    monotonic_ns: NDArray[np.int64]
    power_w: NDArray[np.float64]
    energy_j: NDArray[np.float64]
    mark: NDArray[np.float64]

    def __len__(self) -> int:
        """How many readings there are."""
        return len(self.utc_ns)

    @classmethod
    def of(cls, readings: Sequence[Reading]) -> Samples:
        """The same readings as columns."""
        return _from_records(_records(b"".join(map(packed, readings))))

    def readings(self) -> Iterator[Reading]:
        """One by one, with None for what is absent."""
        for utc_ns, monotonic_ns, *values in zip(
            *(getattr(self, name).tolist() for name in COLUMNS), strict=True
        ):
            yield Reading(
                utc_ns, monotonic_ns, *(None if isnan(value) else value for value in values)
            )

    def between(self, start_monotonic_ns: int, end_monotonic_ns: int) -> Samples:
        """The readings from start to end, both included."""
        import numpy as np

        first = int(np.searchsorted(self.monotonic_ns, start_monotonic_ns, "left"))
        last = int(np.searchsorted(self.monotonic_ns, end_monotonic_ns, "right"))
        return Samples(*(getattr(self, name)[first:last] for name in COLUMNS))


def packed(reading: Reading) -> bytes:
    """A reading as a record."""
    utc_ns, monotonic_ns, power_w, energy_j, mark = reading
    return RECORD.pack(
        utc_ns,
        monotonic_ns,
        _NAN if power_w is None else power_w,
        _NAN if energy_j is None else energy_j,
        _NAN if mark is None else mark,
    )


def read_file(
    path: Path, start_monotonic_ns: int | None = None, end_monotonic_ns: int | None = None
) -> Samples:
    """The readings in a file of records, all of them or those from start to end.

    Only the asked part is read. A torn last record is left out; no file is no reading. Raises
    ResultError where the file cannot be read.
    """
    records = _mapped(path)
    times = records["monotonic_ns"]
    first = 0 if start_monotonic_ns is None else bisect.bisect_left(times, start_monotonic_ns)
    last = len(times) if end_monotonic_ns is None else bisect.bisect_right(times, end_monotonic_ns)
    return _from_records(records[first:last])


def newest(path: Path) -> Reading | None:
    """The last whole record in a file; None if there is none yet."""
    try:
        with path.open("rb") as file:
            whole = file.seek(0, 2) // RECORD.size
            if not whole:
                return None
            file.seek((whole - 1) * RECORD.size)
            utc_ns, monotonic_ns, *values = RECORD.unpack(file.read(RECORD.size))
    except (OSError, struct.error):
        return None
    return Reading(utc_ns, monotonic_ns, *(None if isnan(value) else value for value in values))


def _mapped(path: Path) -> NDArray[Any]:
    import numpy as np

    try:
        count = path.stat().st_size // RECORD.size
        if not count:
            return _records(b"")
        return np.memmap(path, _layout(), "r", shape=(count,))
    except FileNotFoundError:
        return _records(b"")
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error


def _records(content: bytes) -> NDArray[Any]:
    import numpy as np

    return np.frombuffer(content, _layout())


def _layout() -> np.dtype[Any]:
    import numpy as np

    return np.dtype(list(zip(COLUMNS, _FORMATS, strict=True)))


def _from_records(records: NDArray[Any]) -> Samples:
    import numpy as np

    return Samples(*(np.ascontiguousarray(records[name]) for name in COLUMNS))
