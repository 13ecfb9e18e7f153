"""Where blocks go in the one file of a dump.

    /<variable>             the whole field, where all its blocks tell their place in it
    /<variable>/<rank>      else: as in part files

Blocks that overlap, as with their halos, would overwrite each other in a whole field.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from wattio.hpcio.blocks import Block

Box = tuple[tuple[int, int], ...]
"""Where a block begins and ends along each axis."""


@functools.lru_cache(maxsize=8)
def fields(blocks: tuple[Block, ...]) -> dict[str, Block]:
    """The variables that become whole fields, each with one of its blocks.

    Dumps mostly have the blocks of the one before, so what was found is kept.
    """
    members: dict[str, list[Block]] = {}
    for block in blocks:
        members.setdefault(block.name, []).append(block)
    return {name: those[0] for name, those in members.items() if _make_a_field(those)}


def _make_a_field(blocks: Sequence[Block]) -> bool:
    """Whether blocks of one variable lie side by side in the same field."""
    kinds = {(block.global_shape, block.dtype) for block in blocks}
    return len(kinds) == 1 and blocks[0].global_shape is not None and not _overlap(_boxes(blocks))


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
