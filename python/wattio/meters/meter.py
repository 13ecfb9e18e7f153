"""What a power meter is: the shape that every kind of meter has.

A meter is opened by its URL-shaped name, tells facts about itself, is read again and again, and is
closed. A module of this package is one kind of meter; it offers

    SCHEME: str                                  # what stands before the first colon of a name
    FORM: str                                    # how a name is written, for help and messages
    def find() -> list[FoundMeter]                    # those that this machine has
    def open_meter(name: str) -> Meter           # raises InputError, MeterRefused, MeterLost
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from wattio.errors import WattioError


class MeterRefused(WattioError):  # noqa: N818 (what happened, not a fault of ours)
    """The meter answers, but will not serve: wrong password, no such sensor. Stop and say so."""


class MeterAbsent(MeterRefused):
    """There is no such meter now, or it may not be opened: one that was there may come back."""


class MeterLost(WattioError):  # noqa: N818
    """The meter does not answer, or what it says cannot be true. Try again; the gap is recorded."""


class BadReading(MeterLost):
    """One reading cannot be used: it is missing, and the meter goes on without being opened."""


class Reading(NamedTuple):
    """One sample. Stamps are taken at the source: around the moment the value was got.

    `power_w` is the power at that moment, or the mean since the reading before for a meter that
    counts energy (None for its first reading). `energy_j` is the energy since the meter was opened,
    where it counts. `mark` is something of the meter's own that moves on while it lives: its
    counter, or its own time stamp; None if it has none.
    """

    utc_ns: int
    monotonic_ns: int
    power_w: float | None
    energy_j: float | None = None
    mark: float | None = None


@dataclass(frozen=True)
class Facts:
    """What a meter says about itself.

    `period_s` is how often it has something new, and how often it is read where nothing else is
    asked. `resolution_w` is its smallest step. `streams` means that `read` waits for the next value
    that the meter sends; others answer at once. `estimate` means that nothing is measured: the word
    stands wherever the value is printed; `model` holds the coefficients that it is made of, as
    `analysis.modelled.Coefficients` keeps them. `untried` says on what it was never tried.
    """

    name: str
    what: str
    period_s: float
    resolution_w: float | None = None
    accuracy_class: str = "unknown"
    lag_s: float = 0.0
    streams: bool = False
    counts_energy: bool = False
    estimate: bool = False
    untried: str | None = None
    model: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class FoundMeter:
    """A meter that this machine has; `trouble` is why it cannot be read now."""

    name: str
    what: str
    trouble: str | None = None


class Meter(Protocol):
    """An open meter; for one thread."""

    @property
    def facts(self) -> Facts:
        """What it says about itself."""

    def read(self) -> Reading:
        """The next sample. Raises MeterLost, MeterRefused."""

    def close(self) -> None:
        """Let go of it. May be called twice, and while another thread is in `read`."""
