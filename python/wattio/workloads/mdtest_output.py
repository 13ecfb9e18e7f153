"""What mdtest prints: the table of rates, with a colon behind each name (3.x) or without (4.x).

mdtest has no JSON, and of several iterations it tells the mean, the extremes and a deviation only.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from wattio.errors import ResultError
from wattio.workloads.imported import Imported
from wattio.workloads.workload import Operation

CACHE_RATE_PER_S = 1e6
"""More operations a second than this come from the client's own cache."""

STAMPS = "mdtest tells when it was started and ended only, not when its phases were"
POPULATION = "the standard deviations are the population's: divided by n, not by n - 1"
MEAN = "rates are means of the iterations' rates"

_VERSION = re.compile(r"^mdtest-(\S{1,40}) was launched", re.MULTILINE)
_SIZE = re.compile(r"^\d{1,9} tasks?, (\d{1,15}) files", re.IGNORECASE)
_TABLE = re.compile(r"^SUMMARY(?P<what>[^:]{0,40}): \(of (?P<iterations>\d{1,6}) iterations?\)")
_ROW = re.compile(
    r"^\s+(?P<name>(?:Directory|File|Tree) [a-z]{1,20})\s*:?"
    r"\s+(?P<most>\S{1,40})\s+(?P<least>\S{1,40})\s+(?P<mean>\S{1,40})\s+(?P<spread>\S{1,40})\s*$"
)
_COUNTED = ("Directory ", "File ")
_LEAST, _MOST = 1e-9, 2.0**63


@dataclass(frozen=True)
class Rates:
    """A row: operations a second over the iterations."""

    name: str
    most: float
    least: float
    mean: float
    spread: float | None
    iterations: int
    items: int | None

    @property
    def is_of_population(self) -> bool:
        """Whether the deviation divides by n: two iterations give it away."""
        if self.iterations != 2 or self.spread is None or self.most <= self.least:
            return False
        return math.isclose(self.spread, (self.most - self.least) / 2, rel_tol=0.01)


def parse(output: str) -> Imported:
    """Read an output of mdtest. Raises ResultError where it holds no rates."""
    rows = _rows(output)
    if not rows:
        raise ResultError('holds no results of mdtest: no table "SUMMARY rate" with a rate above 0')
    version = _VERSION.search(output)
    notes = [STAMPS]
    if any(row.iterations > 1 for row in rows):
        notes.append(MEAN)
    if any(row.is_of_population for row in rows):
        notes.append(POPULATION)
    operations = tuple(_operation(row) for row in rows)
    return Imported("mdtest", version[1] if version else "unknown", operations, tuple(notes))


def _rows(output: str) -> list[Rates]:
    """The rows of all tables of rates; a rate of 0 is a phase that was not run."""
    rows: list[Rates] = []
    items: int | None = None
    iterations: int | None = None
    for line in output.split("\n"):
        if size := _SIZE.match(line):
            items = int(size[1])
        elif head := _TABLE.match(line):
            # Newer versions print a table of times too, in the same layout.
            iterations = None if "time" in head["what"] else int(head["iterations"])
        elif iterations and (row := _ROW.match(line)):
            most, least, mean = (_number(row[key]) for key in ("most", "least", "mean"))
            if most and least is not None and mean is not None and mean > _LEAST:
                rows.append(
                    Rates(row["name"], most, least, mean, _number(row["spread"]), iterations, items)
                )
    return rows


def _operation(row: Rates) -> Operation:
    items = row.items if row.name.startswith(_COUNTED) else None
    doubts: tuple[str, ...] = ()
    if row.most > CACHE_RATE_PER_S:
        doubts = (
            f"{row.most:,.0f} operations a second come from the client's own cache: shift the"
            " tasks between phases (-N), over several nodes",
        )
    name = row.name.lower().replace(" ", "_")
    return Operation(
        operation=name,
        phase=name,
        # Of several iterations the sum of their times is not told.
        seconds=items / row.mean if items and row.iterations == 1 else None,
        operations=items * row.iterations if items else None,
        iops=row.mean,
        doubts=doubts,
    )


def _number(word: str) -> float | None:
    try:
        found = float(word)
    except ValueError:
        return None
    return found if 0 <= found < _MOST else None
