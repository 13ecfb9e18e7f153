"""Where a dump's blocks lie in the shared memory; remembered, since the next dump is mostly alike.

While memory that held a dump has not been given to another, its headers stand and its arrays are
made: a dump that asks for the same blocks in the same order takes it over as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattio.hpcio.blocks import Block

if TYPE_CHECKING:
    from wattio.hpcio.blocks import Array

Asked = tuple[object, ...]
"""What `allocate` was given: name, shape, type, global shape and offset."""


class Places:
    """The memory of a dump, or of several, one after the other."""

    __slots__ = ("arrays", "asked", "bytes", "head", "is_lasting", "number", "placed")

    def __init__(self, number: int) -> None:
        """For the dump of this number; nothing is placed yet."""
        self.number = number
        self.asked: list[Asked] = []
        self.placed: list[tuple[Block, int]] = []
        self.arrays: list[Array] = []
        self.is_lasting = True
        """Whether it can serve again."""
        self.head = 0
        """Where the first header is, once they are written."""
        self.bytes = 0

    def add(self, asked: Asked | None, block: Block, start: int, array: Array) -> None:
        """Another block at its start; `asked` is None where it may change under our hands."""
        self.asked.append(asked or ())
        self.is_lasting = self.is_lasting and asked is not None
        self.placed.append((block, start))
        self.arrays.append(array)

    def beginning(self, count: int, number: int) -> Places:
        """The first blocks alone, for a dump that goes on differently."""
        made = Places(number)
        made.asked = self.asked[:count]
        made.placed = self.placed[:count]
        made.arrays = self.arrays[:count]
        return made
