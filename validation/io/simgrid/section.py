"""The part of the page that shows SimGrid's runs beside the model's, from what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattio.report import output

from validation.io.simgrid.cases import DUMPS, REST, cases
from validation.io.simgrid.rows import (
    EXPLAINED,
    OUTSIDE,
    PATH,
    WITHIN,
    Choice,
    Row,
    choices,
    recorded,
    table,
)


@dataclass(frozen=True)
class Section:
    """Rows that the page shows, or why there are none."""

    rows: list[Row]
    why_not: str = ""
    dumps: int = DUMPS
    rest: float = REST

    @property
    def within(self) -> int:
        """How many rows need no reason."""
        return self._count(WITHIN)

    @property
    def explained(self) -> int:
        """How many have one."""
        return self._count(EXPLAINED)

    @property
    def outside(self) -> int:
        """How many would need one."""
        return self._count(OUTSIDE)

    def _count(self, outcome: str) -> int:
        return sum(row.outcome == outcome for row in self.rows)

    @property
    def version(self) -> str:
        """SimGrid's."""
        return ", ".join(sorted({str(row.answer["simgrid"]) for row in self.rows}))

    @property
    def pairs(self) -> list[tuple[Row, Row]]:
        """The same run where those who wait poll, and where they sleep."""
        sleeping = {
            (row.case.place, row.case.application, row.case.approach): row
            for row in self.rows
            if not row.case.polls
        }
        return [
            (row, sleeping[row.case.place, row.case.application, row.case.approach])
            for row in self.rows
            if row.case.polls
        ]

    @property
    def reasons(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(why for row in self.rows for why in row.reasons))

    @property
    def choices(self) -> list[Choice]:
        """The least energy by both."""
        return choices(self.rows)

    @property
    def missed(self) -> list[Choice]:
        """Where both name another approach."""
        return [one for one in self.choices if one.by_model is not one.by_simgrid]

    @property
    def same(self) -> int:
        """Where both name the same."""
        return len(self.choices) - len(self.missed)


def section(path: Path = PATH) -> Section:
    """The recorded runs, if all are there. Raises ResultError for a damaged file."""
    if not path.exists():
        return Section([], f"{path.name} is not there")
    wanted = cases()
    rows = recorded(wanted, path)
    if len(rows) < len(wanted):
        why = f"{path.name} has {len(rows)} of {len(wanted)} runs with these parameters"
        return Section([], why)
    return Section(rows)


def write(shown: Section, target: Path) -> None:
    """Its table, into the page's folder. Raises OSError."""
    if not shown.why_not:
        output.write_table(target / "simgrid.csv", table(shown.rows))
