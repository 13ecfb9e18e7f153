"""How pages and the files beside them are written."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from wattio.report.plots import Drawn, Table


def environment() -> Environment:
    """What templates are rendered with: names from files are escaped, a missing one is an error."""
    return Environment(
        loader=PackageLoader("wattio.report", "."),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def style() -> str:
    """The style sheet of every page, for pages made elsewhere."""
    return environment().get_template("style.css.j2").render()


def embedded_image(image: bytes) -> str:
    """An SVG image as the address of it that holds it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(image).decode()}"


def embedded(drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
    """Figures as a page holds them: with their images inside."""
    return [{"drawn": figure, "source": embedded_image(figure.image)} for figure in drawn]


def write_figure(target: Path, name: str, figure: Drawn) -> None:
    """Write a figure as SVG, and its data as CSV."""
    (target / f"{name}.svg").write_bytes(figure.image)
    write_table(target / f"{name}.csv", figure.table)


def write_table(path: Path, table: Table) -> None:
    """Write a table as CSV."""
    path.write_bytes(as_csv(table))


def as_csv(table: Table) -> bytes:
    """A table as the content of a CSV file."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(table)
    return buffer.getvalue().encode()


def slug(name: str) -> str:
    """A name as the beginning of a file's name."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-").lower()
