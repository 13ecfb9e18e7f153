"""Files of a kernel that is not there: what they say at a time, and what they make of a write.

A tree is a dictionary from paths below its root (`sys/class/hwmon/hwmon0/name`) to nodes. Time is
handed in: a tree's clock says seconds since it was mounted, or whatever it was set to. What a node
says of a time is a known function of it, so that a test knows what must be read.
"""

from __future__ import annotations

import errno
import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass

Tree = dict[str, "Node"]


def refusal(code: int) -> OSError:
    """What a system call answers: `errno.EINVAL` and so on."""
    return OSError(code, os.strerror(code))


def whole(text: str) -> int:
    """The number that was written to a file. Raises EINVAL for what is none."""
    if not text.isascii() or not text.isdigit():
        raise refusal(errno.EINVAL)
    return int(text)


class Node(ABC):
    """One file."""

    writable = False

    def is_there(self) -> bool:
        """Whether the kernel shows the file now."""
        return True

    @abstractmethod
    def read(self, at_s: float) -> str:
        """What it says, without the line's end. Raises OSError."""

    def write(self, text: str, at_s: float) -> None:
        """Take what was written in one call, without the line's end. Raises OSError."""
        raise refusal(errno.EACCES)


@dataclass
class Constant(Node):
    """Says the same at all times."""

    text: str

    def read(self, at_s: float) -> str:
        return self.text


@dataclass
class Link(Constant):
    """A symbolic link; its text is where it leads."""


@dataclass
class Steps(Node):
    """Says what it has said since the last of the given times, in seconds: `(0.0, "on")` first."""

    steps: tuple[tuple[float, str], ...]

    def read(self, at_s: float) -> str:
        return [text for since_s, text in self.steps if since_s <= at_s][-1]


@dataclass
class Counter(Node):
    """Counts up: the integral of its rates, and its jumps; at `range` it starts at zero again.

    `rates` are pairs of a time in seconds and the rate from then on, in counts per second: one of
    zero is a counter that is stuck. `jumps` are pairs of a time and how far it jumps then.
    """

    rates: tuple[tuple[float, float], ...]
    start: int = 0
    range: int | None = None
    jumps: tuple[tuple[float, int], ...] = ()

    def advance(self, at_s: float) -> int:
        """How far it has counted, wraps and jumps apart."""
        ends = [since_s for since_s, _ in self.rates[1:]] + [math.inf]
        spans = zip(self.rates, ends, strict=True)
        sums = (rate * max(min(end_s, at_s) - since_s, 0.0) for (since_s, rate), end_s in spans)
        # Whole counts are whole, whatever a float makes of their sum.
        return math.floor(math.fsum(sums) + 1e-6)

    def value(self, at_s: float) -> int:
        """The count."""
        jumped = sum(by for when_s, by in self.jumps if when_s <= at_s)
        count = self.start + self.advance(at_s) + jumped
        return count if self.range is None else count % self.range

    def read(self, at_s: float) -> str:
        return str(self.value(at_s))


@dataclass
class Table(Node):
    """Counters in a text: each `{}` of the form is one of them."""

    form: str
    counters: tuple[Counter, ...]

    def read(self, at_s: float) -> str:
        return self.form.format(*(counter.value(at_s) for counter in self.counters))


@dataclass
class Value(Node):
    """Takes what is written, unless it refuses, forgets or clamps.

    `refuses` is the error of every write from `refuses_from_s` on. One that forgets takes a write
    and goes on saying what it said. Bounds are for numbers, and included.
    """

    text: str
    refuses: int | None = None
    refuses_from_s: float = 0.0
    forgets: bool = False
    lowest: int | None = None
    highest: int | None = None

    writable = True

    def read(self, at_s: float) -> str:
        return self.text

    def write(self, text: str, at_s: float) -> None:
        if self.refuses is not None and at_s >= self.refuses_from_s:
            raise refusal(self.refuses)
        if self.lowest is not None or self.highest is not None:
            number = whole(text)
            number = number if self.lowest is None else max(number, self.lowest)
            text = str(number if self.highest is None else min(number, self.highest))
        if not self.forgets:
            self.text = text


@dataclass
class SyncSpeed(Node):
    """A limit of an md array's repair in KiB/s: the system's until one of its own is written."""

    system: int
    own: int | None = None

    writable = True

    def read(self, at_s: float) -> str:
        return f"{self.system} (system)" if self.own is None else f"{self.own} (local)"

    def write(self, text: str, at_s: float) -> None:
        self.own = None if text == "system" else whole(text)
        if self.own == 0:
            raise refusal(errno.EINVAL)
