"""SimGrid's runs beside the extended model's: deviations, what is accepted, and the record of them.

SimGrid always finds the same for the same parameters, so its answers are kept
(`studies/io-approaches/simgrid.jsonl`): without SimGrid, the model is still compared with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio.errors import ResultError
from wattio.report.plots import Table

from validation.io.models import FOLDER
from validation.io.simgrid.cases import REST, Case, Expected

PATH = FOLDER / "simgrid.jsonl"
QUANTITIES = ("time_s", "energy_j", "period_s", "period_j")
WITHIN, EXPLAINED, OUTSIDE = "within", "explained", "OUTSIDE"

Parameters = Mapping[str, Any]
Simulated = Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """A quantity of a run by both; `expected` are the reasons for a deviation known beforehand."""

    model: float
    simgrid: float
    edges: tuple[float, float]
    expected: tuple[Expected, ...]

    @property
    def deviation(self) -> float:
        """Of SimGrid from the model, relative."""
        return self.simgrid / self.model - 1

    @property
    def accepted(self) -> tuple[float, float]:
        """Deviations that need no reason."""
        return self.edges[0] - REST, self.edges[1] + REST

    @property
    def outcome(self) -> str:
        """In a word."""
        low, high = self.accepted
        if low <= self.deviation <= high:
            return WITHIN
        low += sum(one.low for one in self.expected)
        high += sum(one.high for one in self.expected)
        return EXPLAINED if low <= self.deviation <= high else OUTSIDE


@dataclass(frozen=True)
class Row:
    """A case, what SimGrid answered, and each quantity by both."""

    case: Case
    answer: Simulated
    quantities: Mapping[str, Compared]

    @property
    def outcome(self) -> str:
        """The worst of its quantities."""
        found = {one.outcome for one in self.quantities.values()}
        return next(word for word in (OUTSIDE, EXPLAINED, WITHIN) if word in found)

    @property
    def reasons(self) -> list[str]:
        """Why it differs, where that was known."""
        told = [one for one in self.quantities.values() if one.outcome != WITHIN]
        return list(dict.fromkeys(why.why for one in told for why in one.expected))

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`."""
        found: dict[str, Any] = {
            "place": self.case.place,
            "output_every": self.case.application.output_every,
            "approach": str(self.case.approach),
            "waiting": self.case.waiting,
            "outcome": self.outcome,
            "reasons": self.reasons,
        }
        for name, one in self.quantities.items():
            found[name] = {
                "model": one.model,
                "simgrid": one.simgrid,
                "deviation": one.deviation,
                "accepted": one.accepted,
                "outcome": one.outcome,
            }
        return found


def compare(case: Case, answer: Simulated) -> Row:
    """The model's word on a case against SimGrid's."""
    predicted, dumps = case.predict(), case.application.dumps
    model = {"time_s": float(predicted.time_s), "energy_j": float(predicted.energy_j)}
    model |= {"period_s": model["time_s"] / dumps, "period_j": model["energy_j"] / dumps}
    expected = tuple(case.expected())
    quantities = {}
    for name in QUANTITIES:
        edges = (0.0, 0.0)
        if not name.startswith("period"):
            edge = case.edges(sum(max(0.0, one.high) for one in expected))
            edges = edge.low, edge.high
        quantities[name] = Compared(model[name], float(answer[name]), edges, expected)
    return Row(case, answer, quantities)


@dataclass(frozen=True)
class Choice:
    """What takes the least energy of a period between dumps, by the model and by SimGrid.

    Of a run of few dumps, the last one's writing would count for more than it does in a long one.
    """

    by_model: Row
    by_simgrid: Row

    @property
    def regret(self) -> float:
        """What the model's choice takes more than the best, by SimGrid."""
        chosen, best = (
            row.quantities["period_j"].simgrid for row in (self.by_model, self.by_simgrid)
        )
        return chosen / best - 1


def choices(rows: Sequence[Row]) -> list[Choice]:
    """One for each place, frequency of output and way of waiting."""
    groups: dict[tuple[str, int, bool], list[Row]] = {}
    for row in rows:
        case = row.case
        key = (case.place, case.application.output_every, case.polls)
        groups.setdefault(key, []).append(row)
    return [
        Choice(
            min(group, key=lambda row: row.quantities["period_j"].model),
            min(group, key=lambda row: row.quantities["period_j"].simgrid),
        )
        for group in groups.values()
    ]


def summary(rows: Sequence[Row]) -> str:
    """In a sentence or two."""
    count = {word: sum(row.outcome == word for row in rows) for word in (WITHIN, EXPLAINED)}
    found = choices(rows)
    same = sum(one.by_model is one.by_simgrid for one in found)
    told = (
        f"{count[WITHIN]} of {len(rows)} runs within {100 * REST:g} % (and one dump of a run, where"
        f" writing goes on beside computing), {count[EXPLAINED]} further off as reckoned"
        f" beforehand, {len(rows) - sum(count.values())} outside. The least energy of a"
        f" period is the same approach's in {same} of {len(found)} comparisons"
    )
    missed = [
        f"{one.by_model.case.place} every {one.by_model.case.application.output_every}, waiting"
        f" {one.by_model.case.waiting}: {one.by_model.case.approach} by the model,"
        f" {one.by_simgrid.case.approach} by SimGrid, by {100 * one.regret:.1f} %"
        for one in found
        if one.by_model is not one.by_simgrid
    ]
    return f"{told} ({'; '.join(missed)})" if missed else told


def table(rows: Sequence[Row]) -> Table:
    """Every case in a row, deviations in per cent."""
    head: list[Any] = ["place", "output_every", "approach", "waiting"]
    for name in QUANTITIES:
        head += [f"{name}_model", f"{name}_simgrid", f"{name}_deviation_percent"]
    found: Table = [[*head, "outcome", "why"]]
    for row in rows:
        case = row.case
        line: list[Any] = [case.place, case.application.output_every, str(case.approach)]
        line.append(case.waiting)
        for one in row.quantities.values():
            line += [one.model, one.simgrid, 100 * one.deviation]
        found.append([*line, row.outcome, "; ".join(row.reasons)])
    return found


def save(rows: Sequence[Row], path: Path = PATH) -> None:
    """Keep what SimGrid was asked and what it answered. Raises OSError."""
    kept = ({"asked": row.case.simulated(), "answer": dict(row.answer)} for row in rows)
    path.write_text("".join(f"{json.dumps(one)}\n" for one in kept), encoding="utf-8")


def recorded(chosen: Sequence[Case], path: Path = PATH) -> list[Row]:
    """The cases against what was kept; those that were not asked with these numbers are left out.

    Raises ResultError for a file that cannot be used.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [(one["asked"], one["answer"]) for one in map(json.loads, lines)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"{path} is no record of SimGrid's runs: {error}") from error
    rows = []
    for case in chosen:
        asked = case.simulated()
        rows += [compare(case, answer) for known, answer in kept if known == asked][:1]
    return rows
