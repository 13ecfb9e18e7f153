"""How much of a global field blocks cover, which may overlap as with their halos."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from wattio.hpcio.blocks import Block

Box = tuple[tuple[int, int], ...]
"""Where a block begins and ends along each axis."""


def covered(blocks: Sequence[Block]) -> int:
    """How many elements of one field have a block; those that several share count once."""
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
