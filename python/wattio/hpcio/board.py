"""The board of a dedicated core: what its clients have handed over, and what became of it.

It lies in shared memory, so that a client can drop a dump that waits while the writer is busy; what
both sides change is changed under its lock only. How many dumps a client has posted is not on it:
the writer is told by the client's bell, which also makes sure that it sees what was written before.
Dumps are numbered from 0 by each client in its own order:

    0 .. finished      written or dropped, their memory is free
    finished .. claimed     being written (one at most)
    claimed ..      waiting, as far as clients have posted; one of them may be marked as dropped
"""

from __future__ import annotations

from dataclasses import dataclass

from wattio.hpcio.memory import Memory

WINDOW = 1024
"""How many dumps a client may be ahead of its writer."""

ENTRY = 2
"""Words of what a client says of a dump: its step, and where its first header lies."""

_HEAD = 8
_TEXT_BYTES = 1024
_CLAIMED, _FINISHED, FAILURES, _FAILED_STEP, _TEXT_LENGTH = range(5)
_THROUGH = -1


@dataclass(frozen=True)
class SubmittedDump:
    """A dump as one client handed it over."""

    client: int
    step: int
    head: int | None
    """Where its first block's header lies; None where the client has written it by itself."""


@dataclass(frozen=True)
class Claim:
    """The writer's next dump."""

    number: int
    posted: list[SubmittedDump]
    dropped: bool


class Board:
    """A view of the shared memory; `client` counts the writer's clients from 0."""

    def __init__(self, memory: Memory, clients: int) -> None:
        """Look at memory of `size(clients)` bytes."""
        self.memory = memory
        self._clients = clients
        self._told = [0] * clients
        # Plain words: NumPy would take longer to touch a few of them than all of the rest.
        self._words = memory.words(0, size_words(clients))

    @classmethod
    def create(cls, clients: int) -> Board:
        """A board with nothing on it. Raises HostError."""
        return cls(Memory.create("board", size(clients)), clients)

    def post(self, client: int, number: int, step: int, head: int | None) -> int:
        """Describe a client's next dump, to be handed over by telling; how many have failed yet."""
        words, entries = self.client_slot(client)
        entry = entries + number % WINDOW * ENTRY
        words[entry] = step
        words[entry + 1] = _THROUGH if head is None else head
        return words[FAILURES]

    def client_slot(self, client: int) -> tuple[memoryview[int], int]:
        """The board's words and where a client's entries begin, for one that posts by itself."""
        return self._words, _HEAD + WINDOW + client * WINDOW * ENTRY

    def told(self, client: int, dumps: int) -> None:
        """The writer has heard of more dumps of a client."""
        self._told[client] += dumps

    @property
    def finished_word(self) -> memoryview[int]:
        """One word, read without the lock: the first number that is not finished."""
        return self.memory.words(_FINISHED, 1)

    def free(self, number: int) -> bool:
        """Whether a dump's memory may be used again."""
        with self.memory.locked():
            if number < self._words[_FINISHED]:
                return True
            return number >= self._words[_CLAIMED] and self._words[_dropped(number)] != 0

    def horizon(self) -> int:
        """The first number that is too far ahead of the writer to be posted."""
        with self.memory.locked():
            return self._words[_FINISHED] + WINDOW

    def drop_oldest(self, below: int) -> int | None:
        """Drop the oldest dump that waits, for all clients; its number, None where none waits."""
        with self.memory.locked():
            for number in range(self._words[_CLAIMED], below):
                if not self._words[_dropped(number)]:
                    self._words[_dropped(number)] = 1
                    return number
        return None

    def claim(self, *, closed: bool) -> Claim | None:
        """The next dump that all clients have posted, or a dropped one; None where there is none.

        Once all clients have closed, a dump that only some have posted is as good as it gets.
        """
        with self.memory.locked():
            number = self._words[_CLAIMED]
            clients = range(self._clients)
            has = [client for client in clients if self._told[client] > number]
            dropped = self._words[_dropped(number)] != 0
            whole = len(has) == self._clients
            if not has or not (dropped or whole or closed):
                return None
            posted = [self._read(client, number) for client in has]
            self._words[_CLAIMED] = number + 1
            if dropped:
                self._words[_dropped(number)] = 0
                self._words[_FINISHED] = number + 1
            return Claim(number, posted, dropped)

    def finish(self, number: int) -> None:
        """The claimed dump's memory is free."""
        with self.memory.locked():
            self._words[_FINISHED] = number + 1

    def fail(self, step: int, text: str) -> None:
        """Tell the clients of a dump that failed."""
        told = text.encode()[:_TEXT_BYTES]
        with self.memory.locked():
            self.memory.map[self._words.nbytes : self._words.nbytes + len(told)] = told
            self._words[_FAILED_STEP], self._words[_TEXT_LENGTH] = step, len(told)
            self._words[FAILURES] += 1

    def failures(self) -> tuple[int, int, str]:
        """How many dumps have failed; the step and the error of the last."""
        with self.memory.locked():
            start = self._words.nbytes
            text = self.memory.map[start : start + self._words[_TEXT_LENGTH]]
            return self._words[FAILURES], self._words[_FAILED_STEP], text.decode(errors="replace")

    def _read(self, client: int, number: int) -> SubmittedDump:
        words, entries = self.client_slot(client)
        entry = entries + number % WINDOW * ENTRY
        step, head = words[entry : entry + ENTRY]
        return SubmittedDump(client, step, None if head == _THROUGH else head)


def _dropped(number: int) -> int:
    """The word that marks a dump as dropped."""
    return _HEAD + number % WINDOW


def size_words(clients: int) -> int:
    """Words of 8 B before the text of the last error."""
    return _HEAD + WINDOW + clients * WINDOW * ENTRY


def size(clients: int) -> int:
    """Bytes of a board."""
    return 8 * size_words(clients) + _TEXT_BYTES
