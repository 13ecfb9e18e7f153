"""One run between meters, without a study: its energy by each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from wattio.analysis.cores import Spent
from wattio.clock import Span
from wattio.errors import InputError
from wattio.files.plain import plain
from wattio.kinds.measurement import core_time, system_status
from wattio.kinds.measurement.schema import MeterEntry
from wattio.kinds.measurement.verdicts import Watched
from wattio.knobs.texts import here
from wattio.meters import parquet
from wattio.meters.meter import Facts
from wattio.meters.name import public_name
from wattio.recording import Event, Recorder, Samples, Source, unwritten

SAMPLES = "power.parquet"
_RUN = "run"

_CAUGHT_UP_PERIODS = 3.0
_CAUGHT_UP_LEAST_S = 2.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class Energy:
    """What one meter says of a span; None is what it does not. `troubles` is what befell it.

    `range_j` is the least and the most that an estimate may be, with each of its coefficients
    anywhere in its own range.
    """

    facts: Facts
    energy_j: float | None
    power_w_mean: float | None
    troubles: tuple[str, ...]
    range_j: tuple[float, float] | None = None

    def as_dict(self, parts: int) -> dict[str, Any]:
        """Plain data, with the energy of each of so many parts; an estimate is called so."""
        prefix = "estimated_" if self.facts.estimate else ""
        each_j = self.energy_j / parts if self.energy_j is not None and parts else None
        values = {
            "energy_j": self.energy_j,
            "power_w_mean": self.power_w_mean,
            "joules_per_dump": each_j,
        }
        if self.range_j is not None:
            values |= dict(zip(("energy_j_low", "energy_j_high"), self.range_j, strict=True))
        known = {f"{prefix}{name}": value for name, value in values.items() if value is not None}
        found: dict[str, Any] = {"meter": self.facts.name, "estimate": self.facts.estimate, **known}
        if self.facts.estimate:
            found["by"] = self.facts.what
        return {**found, "troubles": list(self.troubles)} if self.troubles else found


@dataclass(frozen=True)
class Metered(Generic[Result]):
    """What some work gave, its energy by each meter, and what this machine's cores did meanwhile.

    `spent` is None if the kernel does not show it.
    """

    result: Result
    energies: tuple[Energy, ...]
    spent: Spent | None


def metered(
    meters: Sequence[str],
    folder: Path,
    work: Callable[[], tuple[Result, Span]],
    ends: Callable[[Result], core_time.Ends | None] = lambda _: None,
) -> Metered[Result]:
    """Do some work while meters are recorded; what it returns, with the energy of its span.

    `ends` finds the ticks of cores at the span's very ends in what the work returns. All samples
    and looks at cores are left in `folder`. Raises what `Recorder.start` and the work raise,
    InputError for a meter that is named twice, and ResultError where samples cannot be written.
    """
    sources = {f"meter {number}": name for number, name in enumerate(meters, start=1)}
    for name in meters:
        if meters.count(name) > 1:
            raise InputError(f'meter "{public_name(name)}" is named twice')
    if not sources:
        result, span = _watched(work, folder)
        return Metered(result, (), _spent(span, folder, ends(result)))
    with (
        unwritten.beside(folder / SAMPLES, ".power-") as place,
        Recorder([Source(*pair) for pair in sources.items()], place.path) as recorder,
    ):
        facts = recorder.start()
        result, span = _watched(work, folder)
        with place.needed():
            _catch_up(recorder, facts, span)
            recorder.stop()
            recorded = {label: recorder.read_all(label) for label in facts}
            events = recorder.events()
            parquet.write(folder / SAMPLES, recorded)
    spent = _spent(span, folder, ends(result))
    found = [_energy(span, facts[at], recorded[at], _of(at, events), spent) for at in facts]
    return Metered(result, tuple(found), spent)


def _catch_up(recorder: Recorder, facts: Mapping[str, Facts], span: Span) -> None:
    """Wait for a sample beyond the end from each meter, for as long as it may take."""
    for label, one in facts.items():
        patience_s = max(_CAUGHT_UP_LEAST_S, _CAUGHT_UP_PERIODS * one.period_s) + one.lag_s
        end_ns = span.end.monotonic_ns + round(one.lag_s * 1e9)
        recorder.caught_up(label, end_ns, patience_s)


def _watched(work: Callable[[], tuple[Result, Span]], folder: Path) -> tuple[Result, Span]:
    """Do it while the counters of this machine's cores are kept."""
    looks = core_time.asking(here())
    with system_status.kept(looks, core_time.LOOK_S, folder, _RUN, core_time.KIND):
        return work()


def _spent(span: Span, folder: Path, ends: core_time.Ends | None) -> Spent | None:
    return core_time.spent(span, system_status.read(folder, _RUN, core_time.KIND), ends)


def _of(label: str, events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.label == label]


def _energy(
    span: Span, facts: Facts, samples: Samples, events: Sequence[Event], spent: Spent | None
) -> Energy:
    entry = MeterEntry(name=f"{facts.name.partition(':')[0]}:", covers=["host"])
    watched = Watched.of(entry, facts, samples, events)
    troubles = [f"{event.kind}: {event.text}" for event in events]
    energy_j, range_j = watched.energy_j(span), None
    if (parts := core_time.parts_j(facts, spent)) is not None:
        low, energy_j, high = (sum(part[at] for part in parts.values()) for at in range(3))
        range_j = (low, high)
    if energy_j is None:
        troubles.append(f"no sample within {plain(span.seconds)} s")
    power_w = energy_j / span.seconds if energy_j is not None and span.seconds > 0 else None
    return Energy(facts, energy_j, power_w, tuple(troubles), range_j)
