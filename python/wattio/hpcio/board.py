"""The board of a dedicated core: what its clients have handed over, and what became of it.

It lies in shared memory and is changed under its lock only, so that a client can drop a dump that
waits while the writer is busy. Dumps are numbered from 0 by each client in its own order:

    0 .. finished      written or dropped, their memory is free
    finished .. claimed     being written (one at most)
    claimed ..      waiting, as far as clients have posted; one of them may be marked as dropped
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wattio.hpcio.memory import Memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW = 1024
"""How many dumps a client may be ahead of its writer."""

_HEAD = 8
_ENTRY = 3
_TEXT_BYTES = 1024
_CLAIMED, _FINISHED, _FAILURES, _FAILED_STEP, _TEXT_LENGTH = range(5)
_THROUGH = -1


@dataclass(frozen=True)
class Posted:
    """A dump as one client handed it over."""

    client: int
    step: int
    head: int | None
    """Where its first block's header lies; None where the client has written it by itself."""


@dataclass(frozen=True)
class Claim:
    """The writer's next dump."""

    number: int
    posted: list[Posted]
    dropped: bool


class Board:
    """A view of the shared memory; `client` counts the writer's clients from 0."""

    def __init__(self, memory: Memory, clients: int) -> None:
        """Look at memory of `size(clients)` bytes."""
        import numpy as np

        self.memory = memory
        words: NDArray[Any] = np.frombuffer(memory.map, np.int64, size_words(clients))
        self._head = words[:_HEAD]
        self._dropped = words[_HEAD : _HEAD + WINDOW]
        rest = words[_HEAD + WINDOW :].reshape(clients, 1 + WINDOW * _ENTRY)
        self._posted = rest[:, 0]
        self._entries = rest[:, 1:].reshape(clients, WINDOW, _ENTRY)
        self._text = np.frombuffer(
            memory.map, np.uint8, _TEXT_BYTES, offset=8 * size_words(clients)
        )

    @classmethod
    def create(cls, clients: int) -> Board:
        """A board with nothing on it. Raises HostError."""
        return cls(Memory.create("board", size(clients)), clients)

    def post(self, client: int, number: int, step: int, head: int | None) -> None:
        """Hand a dump over."""
        with self.memory.locked():
            self._entries[client, number % WINDOW, :2] = step, _THROUGH if head is None else head
            self._posted[client] = number + 1

    def free(self, number: int) -> bool:
        """Whether a dump's memory may be used again."""
        with self.memory.locked():
            return self._is_free(number)

    def horizon(self) -> int:
        """The first number that is too far ahead of the writer to be posted."""
        with self.memory.locked():
            return int(self._head[_FINISHED]) + WINDOW

    def drop_oldest(self, below: int) -> int | None:
        """Drop the oldest dump that waits, for all clients; its number, None where none waits."""
        with self.memory.locked():
            for number in range(int(self._head[_CLAIMED]), below):
                if not self._dropped[number % WINDOW]:
                    self._dropped[number % WINDOW] = 1
                    return number
        return None

    def claim(self, *, closed: bool) -> Claim | None:
        """The next dump that all clients have posted, or a dropped one; None where there is none.

        Once all clients have closed, a dump that only some have posted is as good as it gets.
        """
        with self.memory.locked():
            number = int(self._head[_CLAIMED])
            slot = number % WINDOW
            has = [client for client, count in enumerate(self._posted) if count > number]
            dropped = bool(self._dropped[slot])
            whole = len(has) == len(self._posted)
            if not has or not (dropped or whole or closed):
                return None
            posted = [self._entry(client, slot) for client in has]
            self._head[_CLAIMED] = number + 1
            if dropped:
                self._dropped[slot] = 0
                self._head[_FINISHED] = number + 1
            return Claim(number, posted, dropped)

    def finish(self, number: int) -> None:
        """The claimed dump's memory is free."""
        with self.memory.locked():
            self._head[_FINISHED] = number + 1

    def fail(self, step: int, text: str) -> None:
        """Tell the clients of a dump that failed."""
        told = text.encode()[:_TEXT_BYTES]
        with self.memory.locked():
            self._text[: len(told)] = list(told)
            self._head[_FAILED_STEP], self._head[_TEXT_LENGTH] = step, len(told)
            self._head[_FAILURES] += 1

    def failed(self, known: int) -> bool:
        """Whether more dumps have failed than are known of: one word, read without the lock."""
        return bool(self._head[_FAILURES] != known)

    def failures(self) -> tuple[int, int, str]:
        """How many dumps have failed; the step and the error of the last."""
        with self.memory.locked():
            text = bytes(self._text[: self._head[_TEXT_LENGTH]]).decode(errors="replace")
            return int(self._head[_FAILURES]), int(self._head[_FAILED_STEP]), text

    def _is_free(self, number: int) -> bool:
        if number < self._head[_FINISHED]:
            return True
        return bool(number >= self._head[_CLAIMED] and self._dropped[number % WINDOW])

    def _entry(self, client: int, slot: int) -> Posted:
        step, head = (int(value) for value in self._entries[client, slot, :2])
        return Posted(client, step, None if head == _THROUGH else head)


def size_words(clients: int) -> int:
    """Words of 8 B before the text of the last error."""
    return _HEAD + WINDOW + clients * (1 + WINDOW * _ENTRY)


def size(clients: int) -> int:
    """Bytes of a board."""
    return 8 * size_words(clients) + _TEXT_BYTES
