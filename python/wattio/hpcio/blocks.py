"""Blocks: what a rank hands over of one variable, and where it lies in the global field."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wattio.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
KINDS = "biufc"
"""Kinds of NumPy's types that a block may have: truth values and numbers."""


@dataclass(frozen=True)
class Block:
    """One variable's part on one rank; shapes in elements."""

    name: str
    rank: int
    shape: tuple[int, ...]
    dtype: str
    global_shape: tuple[int, ...] | None = None
    offset: tuple[int, ...] | None = None

    @functools.cached_property
    def bytes(self) -> int:
        """The size of its data."""
        import numpy as np

        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @functools.cached_property
    def text(self) -> str:
        """The block as JSON text, in ASCII."""
        return json.dumps(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """The block as plain data, as `of` takes it."""
        found: dict[str, Any] = {
            "name": self.name,
            "rank": self.rank,
            "shape": list(self.shape),
            "dtype": self.dtype,
        }
        if self.global_shape is not None and self.offset is not None:
            found |= {"global_shape": list(self.global_shape), "offset": list(self.offset)}
        return found


def make(
    name: str,
    rank: int,
    shape: Sequence[int] | int,
    dtype: np.dtype[Any] | type | str,
    global_shape: Sequence[int] | None = None,
    offset: Sequence[int] | None = None,
) -> Block:
    """A block of checked facts. Raises InputError: which variable, and what is wrong."""
    import numpy as np

    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            f"variable {name!r}: a name has 1 to 64 letters, digits and _ . + -, and starts with"
            " a letter, a digit or _"
        )
    try:
        kind = np.dtype(dtype).newbyteorder("=")
    except (TypeError, ValueError, SyntaxError) as error:
        raise InputError(f"variable {name}: {error}") from error
    if kind.kind not in KINDS or kind.hasobject:
        raise InputError(f"variable {name}: type {kind} is no number")
    size = _extent(name, "shape", [shape] if isinstance(shape, int) else shape)
    if (global_shape is None) != (offset is None):
        raise InputError(f"variable {name}: global_shape and offset go together")
    if global_shape is None or offset is None:
        return Block(name, rank, size, kind.str)
    whole, start = _extent(name, "global_shape", global_shape), _extent(name, "offset", offset)
    inside = len(size) == len(whole) == len(start) and all(
        at + length <= all_ for at, length, all_ in zip(start, size, whole, strict=True)
    )
    if not inside:
        raise InputError(
            f"variable {name}: a block of {size} at {start} does not lie within {whole}"
        )
    return Block(name, rank, size, kind.str, whole, start)


def _extent(name: str, what: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        found = tuple(int(value) for value in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"variable {name}: {what} {values!r} is no tuple of numbers") from error
    if any(value < 0 for value in found):
        raise InputError(f"variable {name}: {what} {found} goes below 0")
    return found
