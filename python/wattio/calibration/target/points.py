"""Measured points of a block server: one load held for a while, in the windows that were quiet.

`kept` writes them down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattio.calibration import kept
from wattio.errors import InputError
from wattio.files.document import text_of

READ, MISS, WRITE, DURABLE, MIX = "read", "miss", "write", "durable", "mix"
KINDS = (READ, MISS, WRITE, DURABLE, MIX)
"""Reads that memory answers, and that a device answers; writes that are answered from memory, and
from the device; reads and writes of the first and third kind."""


@dataclass(frozen=True)
class Point:
    """One load of a kind, at `rate_per_s`, over the quiet windows of its time.

    `held_out` is 1 for what is compared and not fitted to. There were `windows`, of which `kept`
    were quiet: `span_s` together, with `requests`. `reactors_s` and `other_s` are the processor
    time of the reactors' threads and of the others of the process, `slices` how often a reactor was
    given a processor, `wait_s` how long it waited for one. Latencies are means, from sending to
    having the answer, `deviation_us` their standard deviation; `late_us` is by how much the client
    sent too late.
    """

    number: int
    held_out: int
    kind: str
    size_bytes: int
    read_share: float
    rate_per_s: float
    windows: int
    kept: int
    span_s: float
    requests: int
    reactors_s: float
    other_s: float
    slices: int
    wait_s: float
    latency_us: float
    deviation_us: float
    late_us: float

    @property
    def demand_us(self) -> float:
        """Processor time of the reactors for each request."""
        return self.reactors_s / self.requests * 1e6

    @property
    def woken(self) -> float:
        """How often a reactor was woken for each request."""
        return self.slices / self.requests

    @property
    def busy(self) -> float:
        """Reactors busy, on average."""
        return self.reactors_s / self.span_s

    @property
    def tells(self) -> bool:
        """Whether anything was answered in quiet windows, and at a cost."""
        return self.latency_us > 0 and self.reactors_s > 0

    @property
    def quiet(self) -> tuple[float, float]:
        """The larger, the less others disturbed: share of the windows, waiting in them."""
        return self.kept / max(self.windows, 1), -self.wait_s / self.span_s

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"{self.kind} {self.size_bytes // 1024} KiB, {self.rate_per_s:,.0f}/s"


def quieter(points: Sequence[Point]) -> list[Point]:
    """The quieter half of the repetitions of a load: whatever it is that they say."""
    return sorted(points, key=lambda point: point.quiet, reverse=True)[: (len(points) + 1) // 2]


_WHOLE = ("number", "held_out", "size_bytes", "windows", "kept", "requests", "slices")
_POSITIVE = ("size_bytes", "rate_per_s", "span_s", "requests")


def dump(points: Iterable[Point], *, header: bool = True) -> str:
    """Points as text, with a line of column names if it is asked for."""
    return kept.dump(Point, points, header=header)


def load(path: Path) -> list[Point]:
    """Read a file of points. Raises InputError, which names file and line."""
    return parse(text_of(path), str(path))


def parse(text: str, where: str) -> list[Point]:
    """Points of a text. A last line without its end was torn: left out. Raises InputError."""
    return [_point(texts, place) for texts, place in kept.rows(Point, text, where)]


def _point(texts: dict[str, str], where: str) -> Point:
    kind = texts.pop("kind")
    if kind not in KINDS:
        raise InputError(f'{where}: kind: "{kind}"; allowed are {", ".join(KINDS)}')
    found = kept.numbers(texts, _WHOLE, where)
    for name in _POSITIVE:
        if found[name] == 0:
            raise InputError(f"{where}: {name}: must be above 0")
    return Point(kind=kind, **found)
