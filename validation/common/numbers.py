"""The page and the command of documents whose numbers are computed again from one another."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattio.report import output
from wattio.report.plots import Table

from validation.common import named, pages, printed
from validation.common.pages import MISSED, Line, Ours
from validation.common.printed import Checked

BAD_INPUT = 2
GIGA = 1e9
_SAID = {"agrees": "agrees", "differs": "DIFFERS", "not computed": "not computed"}
_BOUNDS = {"": "", "least": "at least ", "most": "at most "}


@dataclass(frozen=True)
class Document:
    """A document as its page names it: the first part of its keys, and its tables in words.

    `tables` has a title for each table of the file, by the rest of its key.
    """

    key: str
    title: str
    tables: Mapping[str, str]


@dataclass(frozen=True)
class About:
    """A page: what it is of, in a word for its files and in words, and its documents."""

    name: str
    title: str
    said: str
    documents: Sequence[Document]


@dataclass(frozen=True)
class Group:
    """The numbers of one table of a document."""

    id: str
    title: str
    rows: list[Checked]

    @property
    def computed(self) -> list[Checked]:
        """Those that are set against a value of ours, what differs first."""
        found = [row for row in self.rows if row.ours is not None]
        return sorted(found, key=lambda row: row.outcome != "differs")

    @property
    def scattered(self) -> bool:
        """Whether its numbers stand in several places, so that each has to say where."""
        return len({row.entry.where for row in self.rows}) > 1

    @property
    def reasons(self) -> dict[str, list[Checked]]:
        """The others, by the reason why they are not computed."""
        found: dict[str, list[Checked]] = {}
        for row in self.rows:
            if row.ours is None:
                found.setdefault(row.reason, []).append(row)
        return found


def groups(rows: Sequence[Checked], document: Document) -> list[Group]:
    """The tables of a document in the file's order. Raises KeyError for one without a title."""
    found: dict[str, list[Checked]] = {}
    for row in rows:
        first, table, *_ = row.entry.key.split(".")
        if first == document.key:
            found.setdefault(table, []).append(row)
    return [
        Group(f"{document.key}-{table}".replace("_", "-"), document.tables[table], own)
        for table, own in found.items()
    ]


def counted(rows: Sequence[Checked]) -> str:
    """How many numbers agree, differ and are not computed."""
    counts = Counter(row.outcome for row in rows)
    return (
        f"{counts['agrees']} agree within the rounding of print, {counts['differs']} differ,"
        f" {counts['not computed']} are not computed"
    )


def value_text(row: Checked) -> str:
    """The published value with its unit, and whether it is a bound."""
    if isinstance(row.value, str):
        return row.value
    return _BOUNDS[row.entry.bound] + _with_unit(row.value.value, row.entry.unit, 10)


def ours_text(row: Checked) -> str:
    """Our value with its unit."""
    return "" if row.ours is None else _with_unit(row.ours, row.entry.unit, 5)


def _with_unit(value: float, unit: str, digits: int) -> str:
    if unit == "Hz" and value >= GIGA:
        value, unit = value / GIGA, "GHz"
    return f"{value:,.{digits}g} {unit}".strip()


def deviation_text(row: Checked) -> str:
    """How far ours is off, in per cent; empty for bounds and what was not computed."""
    return "" if row.deviation_percent is None else f"{row.deviation_percent:+.2f} %"


def table(rows: Sequence[Checked]) -> Table:
    """Every number, for CSV."""
    found: Table = [
        ["key", "where", "unit", "bound", "published", "ours", "deviation_percent", "outcome"]
    ]
    found[0].append("reason")
    for row in rows:
        told = row.as_dict()
        found.append(["" if told[name] is None else told[name] for name in found[0]])
    return found


def write(about: About, rows: Sequence[Checked], target: Path) -> Path:
    """Write the page and its CSV into a folder, which is made; return the page. Raises OSError."""
    target.mkdir(parents=True, exist_ok=True)
    environment = pages.environment(Path(__file__).parent)
    environment.filters |= {
        "value": value_text,
        "ours": ours_text,
        "off": deviation_text,
        "claim": named.claim,
        "slug": output.slug,
    }
    environment.globals |= {"said": _SAID}
    shown = [(document, groups(rows, document)) for document in about.documents]
    text = environment.get_template("numbers.html.j2").render(
        about=about, documents=shown, lines=_summary(rows), counted=counted(rows)
    )
    output.write_table(target / f"{about.name}.csv", table(rows))
    page = target / f"{about.name}.html"
    page.write_text(text, encoding="utf-8")
    return page


def _summary(rows: Sequence[Checked]) -> list[Line]:
    """What differs: the page begins with it."""
    return [
        Line(
            f"{named.claim(row.entry.key)} ({row.entry.where})",
            value_text(row),
            [Ours(ours_text(row), MISSED, f"no, {deviation_text(row) or 'beyond the bound'}")],
            output.slug(row.entry.key),
        )
        for row in rows
        if row.outcome == "differs"
    ]


def main(package: str, about: About, rows: Sequence[Checked], arguments: list[str] | None) -> int:
    """Print the check of documents; 1 where something has no reason, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}",
        description=f"Compute what {about.said} publish again from what else they publish.",
    )
    parser.add_argument("--out", type=Path, help="write a page and a CSV file into this folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    given = parser.parse_args(arguments)
    try:
        page = None if given.out is None else write(about, rows, given.out)
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    if given.json:
        told = {"numbers": [row.as_dict() for row in rows]}
        text = json.dumps(told | ({"page": str(page)} if page else {}), ensure_ascii=False)
    else:
        text = printed.table(rows) + (f"\npage: {page}" if page else "")
    sys.stdout.write(text + "\n")
    return printed.judge(rows)
