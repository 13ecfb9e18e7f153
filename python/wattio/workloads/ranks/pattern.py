"""The data that is written and verified: a seeded block, with each sector marked by its place.

Only the marks differ between transfers, so that making and checking data costs little beside moving
it, and yet no sector can be taken for another, or for one of another seed.
"""

from __future__ import annotations

from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from wattio.workloads.ranks import SECTOR_BYTES

_WORD_BYTES = 8
_STEP = SECTOR_BYTES // _WORD_BYTES
_FILE_SHIFT = 44
"""A file's number stands above the 44 bits that number its sectors."""


class DataMismatch(Exception):  # noqa: N818 (what was found, not a fault of ours)
    """What was read is not what was written."""


class Pattern:
    """The data of transfers of one size."""

    def __init__(self, seed: int, transfer_bytes: int) -> None:
        """`transfer_bytes` is a multiple of 512. The buffers begin at a page, for direct I/O."""
        # Anonymous memory begins at a page.
        self._memory = mmap(-1, transfer_bytes), mmap(-1, transfer_bytes)
        self._right, self._read = (np.frombuffer(part, dtype=np.uint64) for part in self._memory)
        random = np.random.Generator(np.random.PCG64(seed))
        self._right[:] = random.integers(0, 2**64, len(self._right), dtype=np.uint64)
        self._key = np.uint64(random.integers(0, 2**64, dtype=np.uint64))
        self._sectors: NDArray[np.uint64] = np.arange(
            transfer_bytes // SECTOR_BYTES, dtype=np.uint64
        )

    def right(self, file: int, offset: int) -> memoryview:
        """What stands at an offset of a file; valid until the next call."""
        first = np.uint64((file << _FILE_SHIFT) + offset // SECTOR_BYTES)
        self._right[::_STEP] = (self._sectors + first) ^ self._key
        return memoryview(self._memory[0])

    @property
    def buffer(self) -> memoryview:
        """Where to read to."""
        return memoryview(self._memory[1])

    def verify(self, file: int, offset: int) -> None:
        """Compare what was read into the buffer. Raises DataMismatch: the first wrong byte."""
        self.right(file, offset)
        if np.array_equal(self._read, self._right):
            return
        first = int(np.argmax(self._read != self._right)) * _WORD_BYTES
        read, right = (
            part[first : first + _WORD_BYTES].hex() for part in (self._memory[1], self._memory[0])
        )
        raise DataMismatch(f"at byte {offset + first}: {read} was read, {right} had been written")
