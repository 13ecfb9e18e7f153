"""Blocks: a rank's part of one variable, its place in the global field, and what several cover."""

from __future__ import annotations

import functools
import itertools
import json
import math
import operator
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

Box = tuple[tuple[int, int], ...]
"""Where a block begins and ends along each axis."""


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
        raise InputError(f"variable {name}: type {kind} is not a number")
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
        found = tuple(operator.index(value) for value in values)
    except TypeError as error:
        raise InputError(
            f"variable {name}: {what} {values!r} is not a tuple of whole numbers"
        ) from error
    if any(value < 0 for value in found):
        raise InputError(f"variable {name}: {what} {found} is below 0")
    return found


def covered(blocks: Sequence[Block]) -> int:
    """How many elements of one field have a block; those that several share count once.

    Blocks may overlap, as with their halos.
    """
    boxes = _boxes(blocks)
    if _overlap(boxes):
        return _covered(frozenset(boxes))
    return sum(math.prod(end - start for start, end in box) for box in boxes)


def _boxes(blocks: Sequence[Block]) -> list[Box]:
    """The places of blocks that are not empty."""
    return [
        tuple((at, at + size) for at, size in zip(block.offset or (), block.shape, strict=True))
        for block in blocks
        if 0 not in block.shape
    ]


def _covered(boxes: frozenset[Box]) -> int:
    """Elements that lie in any of the boxes: stretch by stretch along the first axis."""
    if () in boxes:
        return 1
    waiting = sorted(boxes, reverse=True)
    open_: list[Box] = []
    count = 0
    for start, end in itertools.pairwise(sorted({edge for box in boxes for edge in box[0]})):
        open_ = [box for box in open_ if box[0][1] > start]
        while waiting and waiting[-1][0][0] == start:
            open_.append(waiting.pop())
        count += (end - start) * _covered(frozenset(box[1:] for box in open_))
    return count


def _overlap(boxes: Sequence[Box]) -> bool:
    """Whether any two boxes share an element."""
    if len(boxes) < 2:
        return False
    if not boxes[0]:
        return True
    # Along the axis that is cut most often, few blocks are next to each other at a time.
    axis = max(range(len(boxes[0])), key=lambda one: len({box[one] for box in boxes}))
    open_: list[Box] = []
    for box in sorted(boxes, key=lambda box: box[axis]):
        open_ = [other for other in open_ if other[axis][1] > box[axis][0]]
        if any(_meet(box, other) for other in open_):
            return True
        open_.append(box)
    return False


def _meet(one: Box, other: Box) -> bool:
    return all(
        start < end_other and start_other < end
        for (start, end), (start_other, end_other) in zip(one, other, strict=True)
    )
