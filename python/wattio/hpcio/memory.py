"""Memory that processes share, without a name: nothing of it can be left behind.

A memfd has no entry in `/dev/shm`, nor its limits: it is handed on as an open file, and gone when
the last process that holds it is, however that ended. It is a part of tmpfs all the same, so its
pages count as shared memory.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

from wattio.errors import HostError
from wattio.hpcio.free_memory import available_bytes

ALIGNMENT = 64

Owner = TypeVar("Owner", bound=Hashable)


class Memory:
    """A stretch of shared memory, all of it present; with a lock that a dead process lets go of."""

    def __init__(self, file: int, size: int) -> None:
        """Map an open file, which is its own from now on. Raises HostError."""
        self.file = file
        self.size = size
        self._threads = threading.Lock()
        self._words: list[memoryview[int]] = []
        try:
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            self.map = mmap.mmap(file, size, flags=flags)
        except (OSError, ValueError) as error:
            os.close(file)
            raise HostError(f"{size} B of shared memory cannot be mapped: {error}") from error

    @classmethod
    def create(cls, name: str, size: int) -> Memory:
        """Reserve memory, filled with zeros; the name is for people only. Raises HostError."""
        free = available_bytes()
        if free is not None and size > free:
            # The kernel would give what there is before it says no, and others would go without.
            raise HostError(
                f"{size} B of shared memory for dumps are more than the {free} B that are free;"
                " make the buffer smaller"
            )
        file = os.memfd_create(f"wattio-{name}", os.MFD_CLOEXEC)
        try:
            # Reserved now: a page that is missing later would kill the simulation.
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            os.close(file)
            raise HostError(
                f"{size} B of shared memory for dumps cannot be had: {error.strerror};"
                " make the buffer smaller"
            ) from error
        return cls(file, size)

    def words(self, start: int, count: int) -> memoryview[int]:
        """So many words of 8 B, for as long as the memory is not closed."""
        found = memoryview(self.map)[8 * start : 8 * (start + count)].cast("q")
        self._words.append(found)
        return found

    def close(self) -> None:
        """Let go of the file, and of the memory; it stays mapped as long as arrays of it do."""
        for words in self._words:
            words.release()
        # To unmap it by force would pull it away from under arrays: NumPy's do not hold it.
        del self.map
        os.close(self.file)

    def locked(self) -> Memory:
        """Keep other processes and threads out while in this context; waits for them asleep."""
        return self

    def __enter__(self) -> None:
        """Take the lock."""
        self._threads.acquire()
        fcntl.lockf(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        """Let go of the lock."""
        fcntl.lockf(self.file, fcntl.LOCK_UN)
        self._threads.release()


class Extents(Generic[Owner]):
    """Which bytes of a memory are taken, and by which dump; offsets are aligned."""

    def __init__(self, capacity: int) -> None:
        """All is free."""
        self.capacity = capacity
        self._taken: list[tuple[int, int, Owner]] = []

    @property
    def owners(self) -> set[Owner]:
        """Who holds memory."""
        return {owner for _, _, owner in self._taken}

    def take(self, size: int, owner: Owner) -> int | None:
        """The start of free bytes, now the owner's; None where there are not so many in a row."""
        length = aligned(size)
        start = 0
        for at, (taken, end, _) in enumerate(self._taken):
            if taken - start >= length:
                self._taken.insert(at, (start, start + length, owner))
                return start
            start = end
        if self.capacity - start < length:
            return None
        self._taken.append((start, start + length, owner))
        return start

    def pass_on(self, starts: Collection[int], owner: Owner) -> None:
        """What begins at these offsets is another owner's now."""
        self._taken = [
            (start, end, owner if start in starts else held) for start, end, held in self._taken
        ]

    def release(self, done: Callable[[Owner], bool]) -> None:
        """Free what belongs to owners that are done."""
        finished = {owner for owner in self.owners if done(owner)}
        self._taken = [one for one in self._taken if one[2] not in finished]


def aligned(size: int) -> int:
    """A size, rounded up; never 0, so that everything has a place of its own."""
    return max(1, -(-size // ALIGNMENT)) * ALIGNMENT
