"""What mdtest prints: the table of rates, with a colon behind each name (3.x) or without (4.x).

mdtest has no JSON, and of several iterations it tells the mean, the extremes and a deviation only.
In 3.3 these are over iterations and ranks: a phase lasts as long as its slowest rank.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from wattio.errors import ResultError
from wattio.files.plain import plain
from wattio.workloads.imported import Imported
from wattio.workloads.workload import Operation

CACHE_RATE_PER_S = 1e6
"""More operations a second than this come from the client's own cache."""

STAMPS = "mdtest reports only when it started and ended, not when its phases did"
POPULATION = "the standard deviations are the population's: divided by n, not by n - 1"
MEAN = "rates are means of the iterations' rates"

SPREAD_DOUBTFUL = 0.1
"""A mean of rates is doubtful where they differ by more than this share of it."""

_VERSION = re.compile(
    r"^mdtest-(\S{1,40}) was launched(?: with (\d{1,9}) total task)?", re.MULTILINE
)
_SIZE = re.compile(r"^\d{1,9} tasks?, (\d{1,15}) (?:files|directories)", re.IGNORECASE)
_TABLE = re.compile(r"^SUMMARY(?P<what>[^:]{0,40}): \(of (?P<iterations>\d{1,6}) iterations?\)")
# With statistics of the ranks, these stand before those of the iterations.
_ROW = re.compile(
    r"^\s+(?P<name>(?:Directory|File|Tree) [a-z]{1,20})\s*:?(?:\s+\S{1,40}){0,3}?"
    r"\s+(?P<most>\S{1,40})\s+(?P<least>\S{1,40})\s+(?P<mean>\S{1,40})\s+(?P<spread>\S{1,40})\s*$"
)
_FAILED = re.compile(
    r"^.{0,60}?(?P<words>(?:ERROR(?::| in\b)|FAILED in\b).*|.{0,40}verification error in .*"
    r"|WARNING: .*(?:unable to|failed).*)$",
    re.MULTILINE | re.IGNORECASE,
)
_HARMLESS = ("realpath()", "Command line")
_COMMAND = re.compile(r"^Command line used: (.*)$", re.MULTILINE)
# A path may hold what looks like an option; none begins in the middle of a word.
_OPTION = re.compile(r"""(?<![^\s"'])-(?P<name>[bzW])["']?(?:\s+|=)?["']?(?P<value>\d{1,9})\b""")
_COUNTED = ("Directory ", "File ")
_LEAST, _MOST = 1e-9, 2.0**63
_TREE_MOST = 1 << 53


@dataclass(frozen=True)
class Rates:
    """A row: operations a second over the iterations, and in 3.3 over the ranks too."""

    name: str
    most: float
    least: float
    mean: float
    spread: float | None
    iterations: int

    @property
    def is_of_two(self) -> bool:
        """Whether two values made it, which then are the extremes: mean and deviation tell."""
        if self.iterations != 2 or self.spread is None or self.most <= self.least:
            return False
        return self.is_of_population or math.isclose(
            self.spread, (self.most - self.least) / math.sqrt(2), rel_tol=0.001
        )

    @property
    def is_of_population(self) -> bool:
        """Whether the deviation divides by n: two iterations give it away."""
        if self.iterations != 2 or self.spread is None or self.most <= self.least:
            return False
        return math.isclose(self.spread, (self.most - self.least) / 2, rel_tol=0.01)

    @property
    def rate(self) -> float:
        """Operations over the time of all of them, as far as it can be told."""
        if self.iterations == 1:
            # All ranks do as much: the slowest decides when all of it is done.
            return self.least or self.mean
        if self.is_of_two and self.least > 0:
            return 2 / (1 / self.most + 1 / self.least)
        return self.mean

    @property
    def is_mean(self) -> bool:
        """Whether the rate is a mean of rates, which is more than operations over time."""
        return self.iterations > 1 and self.most > self.least and not self.is_of_two

    def doubts(self) -> Iterable[str]:
        """What is doubtful about the rate."""
        if self.most > CACHE_RATE_PER_S:
            yield (
                f"{self.most:,.0f} operations a second come from the client's own cache: shift the"
                " tasks between phases (-N), over several nodes"
            )
        if self.is_mean and self.most - self.least > SPREAD_DOUBTFUL * self.mean:
            yield (
                f"a mean of rates from {plain(self.least, 4)} to {plain(self.most, 4)}: operations"
                " over the time of all of them are fewer, and mdtest does not report how many"
            )


@dataclass(frozen=True)
class Amounts:
    """How much mdtest said that it does in an iteration; what it does not tell is None.

    With a stonewall (-W) it stops at a time, and does not say how far it came.
    """

    items: int | None
    directories: int | None
    stonewall: bool

    def of(self, row: Rates) -> int | None:
        """Operations of a row, over all iterations."""
        files_unknown = self.stonewall and row.name.startswith("File ")
        known = self.items if row.name.startswith(_COUNTED) else self.directories
        return known * row.iterations if known and not files_unknown else None


def begins(line: str) -> bool:
    """Whether mdtest is about to begin when it says this."""
    return _SIZE.match(line) is not None


def ends(line: str) -> bool:
    """Whether mdtest has done its work when it says this."""
    return _TABLE.match(line) is not None


def failure(output: str) -> str | None:
    """mdtest's own words for what went wrong in a run, whatever its exit code and rates say.

    What could not be made, looked at or removed counts as an operation all the same.
    """
    for found in _FAILED.finditer(output):
        if not any(word in found[0] for word in _HARMLESS):
            return found["words"].strip()
    return None


def parse(output: str) -> Imported:
    """Read an output of mdtest. Raises ResultError where it holds no rates, or failed."""
    if (failed := failure(output)) is not None:
        raise ResultError(f"is from a failed run of mdtest: {failed}")
    rows = _rows(output)
    if not rows:
        raise ResultError('holds no results of mdtest: no table "SUMMARY rate" with a rate above 0')
    version = _VERSION.search(output)
    notes = [STAMPS]
    if any(row.is_mean for row in rows):
        notes.append(MEAN)
    if any(row.is_of_population for row in rows):
        notes.append(POPULATION)
    amounts = _amounts(output)
    return Imported(
        "mdtest",
        version[1] if version else "unknown",
        tuple(_operation(row, amounts) for row in rows),
        tuple(notes),
        int(version[2]) if version and version[2] else None,
    )


def _rows(output: str) -> list[Rates]:
    """The rows of all tables of rates; a rate of 0 is a phase that was not run."""
    rows: list[Rates] = []
    iterations: int | None = None
    for line in output.split("\n"):
        if head := _TABLE.match(line):
            # Newer versions print a table of times too, in the same layout.
            iterations = None if "time" in head["what"] else int(head["iterations"])
        elif iterations and (row := _ROW.match(line)):
            most, least, mean = (_number(row[key]) for key in ("most", "least", "mean"))
            if most and least is not None and mean is not None and mean > _LEAST:
                spread = _number(row["spread"])
                rows.append(Rates(row["name"], most, least, mean, spread, iterations))
    return rows


def _amounts(output: str) -> Amounts:
    sizes = [match for line in output.split("\n") if (match := _SIZE.match(line))]
    command = _COMMAND.search(output)
    if command is None:
        return Amounts(int(sizes[-1][1]) if sizes else None, None, "stonewall" in output)
    options = {match["name"]: int(match["value"]) for match in _OPTION.finditer(command[1])}
    branches, depth = options.get("b", 1), options.get("z", 0)
    tree = depth + 1 if branches <= 1 else None
    if tree is None and depth * math.log(branches) < math.log(_TREE_MOST):
        tree = (branches ** (depth + 1) - 1) // (branches - 1)
    return Amounts(int(sizes[-1][1]) if sizes else None, tree, options.get("W", 0) > 0)


def _operation(row: Rates, amounts: Amounts) -> Operation:
    done = amounts.of(row)
    doubts = list(row.doubts())
    if amounts.stonewall and row.name.startswith("File "):
        doubts.append("a stonewall was set (-W): mdtest does not report how many files there were")
    name = row.name.lower().replace(" ", "_")
    return Operation(
        operation=name,
        phase=name,
        # Of a mean of rates the time of all is not told.
        seconds=done / row.rate if done and not row.is_mean else None,
        operations=done,
        iops=row.rate,
        doubts=tuple(doubts),
        in_turn=True,
    )


def _number(word: str) -> float | None:
    try:
        found = float(word)
    except ValueError:
        return None
    return found if 0 <= found < _MOST else None
