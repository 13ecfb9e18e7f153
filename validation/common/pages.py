"""The pages of the documents: one frame with a list of contents, and how it shows numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader
from markupsafe import Markup
from wattio.report import output
from wattio.report.plots import Table

_HEADING = re.compile(r'<h([23]) id="([^"]+)">(.*?)</h\1>', re.DOTALL)

MET, MISSED, OPEN = "met", "missed", "open"
"""How a claim came out; what is neither was not run, not modelled or left open."""


@dataclass(frozen=True)
class Ours:
    """One value of ours for a claim: as text, how it came out, and what is said of that."""

    text: str
    outcome: str
    said: str
    label: str = ""


@dataclass(frozen=True)
class Line:
    """A line of a page's summary: a claim, what is published of it, and each value of ours.

    `link` is the id of the place on the page that says more.
    """

    claim: str
    published: str
    ours: list[Ours]
    link: str


def records(table: Table) -> list[dict[str, Any]]:
    """The rows of a table by its header, for `--json`."""
    header, *rows = table
    return [dict(zip(header, row, strict=True)) for row in rows]


def environment(folder: Path) -> Environment:
    """What a document's templates are rendered with: theirs, `base.html.j2`, and the report's."""
    made = output.environment()
    own = FileSystemLoader([folder, Path(__file__).parent])
    made.loader = ChoiceLoader([own, made.loader]) if made.loader else own
    made.filters |= {"typeset": typeset, "contents": contents}
    made.globals["style"] = output.style()
    return made


def contents(page: str) -> list[tuple[int, str, Markup]]:
    """Level, id and text of every heading of a page that has an id."""
    # What is in the headings was escaped when the page was rendered.
    return [(int(level), name, Markup(text)) for level, name, text in _HEADING.findall(page)]  # noqa: S704


def typeset(text: str) -> str:
    """Factors with a multiplication sign; no line break before it or before a per cent sign."""
    text = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)
    return re.sub(r"(?<=[\d)]) x(?=[\s,;.)]|$)", "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}", text)
