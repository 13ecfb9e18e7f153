"""Blocks in shared memory: a header that tells what the data are, and where the next header is.

8 B length of the text, 8 B offset of the next header (-1: last), 8 B offset of the data, text
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from wattio.hpcio import blocks
from wattio.hpcio.blocks import Block
from wattio.hpcio.memory import ALIGNMENT, Memory, aligned

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array

_HEAD = struct.Struct("<qqq")
_LAST = -1


def needed(block: Block) -> int:
    """Bytes that a block takes, with its header."""
    return data_offset(block, 0) + aligned(block.bytes)


def data_offset(block: Block, start: int) -> int:
    """Where the data of a block lie whose header is at `start`."""
    return start + aligned(_HEAD.size + len(block.text))


def view(memory: Memory, block: Block, start: int) -> Array:
    """The data of a block whose header is, or will be, at `start`; in place."""
    if block.bytes == 0:
        return np.empty(block.shape, block.dtype)
    return np.ndarray(block.shape, block.dtype, memory.map, data_offset(block, start))


def write(memory: Memory, placed: list[tuple[Block, int]]) -> int:
    """Write the headers of a dump's blocks, each at its start; the first one's."""
    starts = [start for _, start in placed]
    for (block, start), following in zip(placed, [*starts[1:], _LAST], strict=True):
        text = block.text.encode()
        _HEAD.pack_into(memory.map, start, len(text), following, data_offset(block, start))
        memory.map[start + _HEAD.size : start + _HEAD.size + len(text)] = text
    return starts[0]


def read(memory: Memory, head: int) -> Iterator[tuple[Block, Array]]:
    """The blocks of a dump, their data in place."""
    start = head
    while start != _LAST:
        assert start % ALIGNMENT == 0
        length, following, _ = _HEAD.unpack_from(memory.map, start)
        text = memory.map[start + _HEAD.size : start + _HEAD.size + length]
        block = blocks.make(**json.loads(text))
        yield block, view(memory, block, start)
        start = following
