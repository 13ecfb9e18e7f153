"""Where blocks go in the one file of a dump.

    /<variable>             the whole field, where all its blocks tell their place in it
    /<variable>/<rank>      else: as in part files

Blocks that overlap, as with their halos, would overwrite each other in a whole field.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from wattio.hpcio.blocks import Block


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
    return len(kinds) == 1 and blocks[0].global_shape is not None and not _overlap(blocks)


def _overlap(blocks: Sequence[Block]) -> bool:
    """Whether any two blocks of one field share an element."""
    boxes = [
        [(at, at + length) for at, length in zip(block.offset or (), block.shape, strict=True)]
        for block in blocks
        if 0 not in block.shape
    ]
    if len(boxes) < 2:
        return False
    if not boxes[0]:
        return True
    # Along the axis that is cut most often, few blocks are next to each other at a time.
    axis = max(range(len(boxes[0])), key=lambda one: len({box[one] for box in boxes}))
    boxes.sort(key=lambda box: box[axis])
    open_: list[list[tuple[int, int]]] = []
    for box in boxes:
        open_ = [other for other in open_ if other[axis][1] > box[axis][0]]
        if any(_meet(box, other) for other in open_):
            return True
        open_.append(box)
    return False


def _meet(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    return all(
        start < end_other and start_other < end
        for (start, end), (start_other, end_other) in zip(one, other, strict=True)
    )
