"""A figure of a report as an object that a notebook can show."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from wattio.api.tables import Table


@dataclass(frozen=True)
class Figure:
    """A figure of a report: its file name without ending, its image as SVG, its data as a table."""

    name: str
    path: Path

    @property
    def svg(self) -> str:
        """The image."""
        return self.path.read_text(encoding="utf-8")

    @property
    def table(self) -> Table:
        """What is drawn, as the CSV file beside the image has it."""
        with self.path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
            head, *rows = list(csv.reader(file))
        return Table.of_rows(head, [[_value(text) for text in row] for row in rows])

    def _repr_svg_(self) -> str:
        return self.svg


def _value(text: str) -> float | str | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return text
