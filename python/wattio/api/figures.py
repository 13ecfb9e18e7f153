"""A figure of a report as an object that a notebook can show."""

from __future__ import annotations

import csv
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from wattio.api.tables import Table


class Drawn:
    """A report in a temporary folder, which is removed with the last that refers to this."""

    def __init__(self, result: Path) -> None:
        """Make it of a result folder, in which nothing changes. Raises ResultError."""
        from wattio.report import make

        self.path = Path(tempfile.mkdtemp(prefix="wattio-report-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        make(result, self.path)


@dataclass(frozen=True)
class Figure:
    """A figure of a report: its file name without ending, its image as SVG, its data as a table."""

    name: str
    path: Path
    _kept: Drawn | None = field(default=None, repr=False, compare=False)

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
