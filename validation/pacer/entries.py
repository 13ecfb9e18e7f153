"""The form of an entry: one published number, where it stands, and how ours is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wattio.analysis.statistics import Interval

from validation.common import published
from validation.common.published import Scalar
from validation.pacer.data import BACKGROUND_FLOOR, Evaluation

NOT_RUN = "not run"

KINDS = {
    "result": "result",
    "fitted": "the server was fitted to it",
    "input": "input, not a result",
}
"""What agreement with a number means: something, little, nothing."""


@dataclass(frozen=True)
class Evidence:
    """What ours is found in: the study's result, and the savings of Table I in per cent."""

    study: Evaluation
    idle_saving_percent: Mapping[str, float]


@dataclass(frozen=True)
class Reading:
    """One value of ours for a published number: a mean with its interval, a word, or not run."""

    label: str
    value: Interval | str | None
    done: Interval | None = None
    """Background work done beside it over native's; None where it is held against nothing."""

    @property
    def floor_missed(self) -> bool:
        """Whether the value was reached with background work left undone."""
        return self.done is not None and self.done.estimate < BACKGROUND_FLOOR


@dataclass(frozen=True)
class Entry:
    """A number of published.toml [pacer] by its key, and what is needed to compare it."""

    key: str
    where: str
    quantity: str
    unit: str
    kind: str
    read: Callable[[Evidence], list[Reading]]
    why: Callable[[Evidence], str] = lambda _: ""
    scale: float = 1.0
    """From the unit in the file to the entry's."""

    def shown(self, value: Scalar) -> Scalar:
        """A published value in the entry's unit; yes and no as words."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return value if isinstance(value, str) else value * self.scale


@dataclass(frozen=True)
class Compared:
    """An entry with the published value, ours, and why they differ where they do."""

    entry: Entry
    value: Scalar
    readings: list[Reading]
    why: str

    def deviation_percent(self, reading: Reading) -> float | None:
        """Of a reading from the published value, in per cent of it; None without numbers."""
        if not isinstance(reading.value, Interval) or isinstance(self.value, str):
            return None
        return published.deviation_percent(reading.value.estimate, float(self.value))

    def deviates(self, reading: Reading) -> bool:
        """Whether a reading differs beyond its interval and the tolerance."""
        if isinstance(reading.value, str):
            return reading.value != str(self.value)
        if reading.value is None or isinstance(self.value, str):
            return False
        return published.deviates(reading.value, float(self.value))

    @property
    def differs(self) -> bool:
        """Whether any reading does."""
        return any(self.deviates(reading) for reading in self.readings)


def compare(entries: list[Entry], values: Mapping[str, Scalar], seen: Evidence) -> list[Compared]:
    """Every published value with its entry, in the order of published.toml.

    Raises KeyError that names the values without an entry, and the entries without a value.
    """
    known = {entry.key: entry for entry in entries}
    odd = sorted(set(known) ^ set(values))
    if odd:
        raise KeyError(f"published values and entries do not match: {', '.join(odd)}")
    found = []
    for key, value in values.items():
        entry = known[key]
        row = Compared(entry, entry.shown(value), entry.read(seen), "")
        # Reasons are worked out from the data, so only where there is something to explain.
        found.append(replace(row, why=entry.why(seen)) if row.differs else row)
    return found


def exact(value: float) -> Interval:
    """A number that is known exactly."""
    return Interval(value, value, value, 1.0)
