"""The shape of a page, whatever it is about, and the one place that writes it.

A kind of result brings sections; each is a title and blocks: paragraphs, tables, figures, facts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from markupsafe import Markup

from wattio.errors import ResultError
from wattio.files.whole import whole_file
from wattio.report import output
from wattio.report.phrases import DASH
from wattio.report.plots import Drawn, Table


@dataclass(frozen=True)
class Text:
    """A paragraph. `look` is a class of the style sheet: note, warning; small print below it."""

    content: str
    look: str = ""
    small: Sequence[str] = ()
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Heading:
    """A heading within a section, of level 3 or 4."""

    text: str
    level: int = 3
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Cell:
    """What stands in a cell, what in small letters below, and how it looks (a class)."""

    text: str = DASH
    small: str = ""
    look: str = ""


Cells = Sequence["Cell | str | tuple[str, str]"]
"""A row as it is written down: a text, a text with small letters below, or a whole cell."""


@dataclass(frozen=True)
class Grid:
    """A table. A column of the look `text` is aligned to the left, all its cells too."""

    name: str
    columns: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    subjects: frozenset[int] = frozenset()
    kind: ClassVar[str] = "grid"


@dataclass(frozen=True)
class Items:
    """A list."""

    texts: Sequence[str]
    kind: ClassVar[str] = "items"


@dataclass(frozen=True)
class Facts:
    """Names and what is known under them; a text of several lines can be folded away."""

    entries: Sequence[tuple[str, str]]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Folded:
    """A long text that is shown when asked for."""

    summary: str
    text: str
    kind: ClassVar[str] = "folded"


@dataclass(frozen=True)
class Figure:
    """A figure; `prefix` comes before the names of its files."""

    drawn: Drawn
    prefix: str = ""
    kind: ClassVar[str] = "figure"

    @property
    def file(self) -> str:
        """Name of its files, without ending."""
        return self.prefix + self.drawn.name


Block = Text | Heading | Grid | Items | Facts | Folded | Figure


@dataclass(frozen=True)
class Section:
    """A part of a page with a title of its own; `beside` stands next to it, in grey."""

    title: str
    blocks: Sequence[Block]
    beside: str = ""

    @property
    def anchor(self) -> str:
        """Where links lead."""
        return output.slug(self.title)


@dataclass(frozen=True)
class Page:
    """A whole page. `tables` are written beside it as CSV, by their names without ending."""

    title: str
    over: str
    heading: str
    lead: Sequence[Block]
    sections: Sequence[Section]
    tables: Mapping[str, Table] = field(default_factory=dict)

    def figures(self) -> Iterator[Figure]:
        """Every figure."""
        for section in self.sections:
            yield from (block for block in section.blocks if isinstance(block, Figure))


def grid(name: str, columns: Cells, rows: Sequence[Cells], subjects: Sequence[int] = ()) -> Grid:
    """A table from rows as they are written down."""
    lines = [_cells(row) for row in rows]
    return Grid(name, _cells(columns), lines, frozenset(subjects))


def _cells(row: Cells) -> list[Cell]:
    return [
        cell
        if isinstance(cell, Cell)
        else Cell(cell)
        if isinstance(cell, str)
        else Cell(cell[0], cell[1])
        for cell in row
    ]


def gallery(drawn: Sequence[Drawn | None], prefix: str = "") -> list[Block]:
    """Figures with their headings; those that there are."""
    found: list[Block] = []
    for one in drawn:
        if one is not None:
            found += [Heading(one.title), Figure(one, prefix)]
    return found


def as_data(file: str, text: str = "As data") -> Markup:
    """A reference to a table beside the page."""
    return Markup('{}: <a href="{}">{}</a>').format(text, file, file)


def lines(texts: Sequence[str]) -> Markup:
    """Texts below each other."""
    return Markup("<br>").join(texts)


def code(text: str) -> Markup:
    """What somebody types."""
    return Markup("<code>{}</code>").format(text)


def write(target: Path, page: Page, name: str = "index.html") -> Path:
    """Write a page into a folder with its tables and figures beside it; return the page.

    All of them are written or none. Raises ResultError where they cannot be.
    """
    contents = {f"{table}.csv": output.as_csv(rows) for table, rows in page.tables.items()}
    inside = embedded(page)
    for figure in page.figures():
        contents[f"{figure.file}.svg"] = figure.drawn.image
        contents[f"{figure.file}.csv"] = output.as_csv(figure.drawn.table)
        if figure.drawn.narrow and figure.file not in inside:
            contents[f"{figure.file}-narrow.svg"] = figure.drawn.narrow
    contents[name] = _rendered(page, inside).encode()
    made = not target.exists()
    try:
        target.mkdir(exist_ok=True)
        # Each takes its place when all of them are there.
        with contextlib.ExitStack() as waiting:
            for file, content in contents.items():
                waiting.enter_context(whole_file(target / file)).write_bytes(content)
    except OSError as error:
        if made:
            with contextlib.suppress(OSError):
                target.rmdir()
        raise ResultError(f"{target}: cannot be written: {error.strerror}") from error
    return target / name


PAGE_MAX = 1_996_000
"""Most bytes of a page; figures that would make it larger come from beside it."""

_FRAME_MAX = 1_000
"""Most bytes of what stands around a figure that is inside a page."""


def embedded(page: Page) -> frozenset[str]:
    """Files of the figures that are inside the page: the first ones that there is room for."""
    found, room = set(), PAGE_MAX - len(_rendered(page, frozenset()).encode())
    for figure in page.figures():
        panels = json.dumps([asdict(panel) for panel in figure.drawn.panels])
        images = figure.drawn.image + (figure.drawn.narrow or b"")
        size = 4 * len(images) // 3 + len(panels) + _FRAME_MAX
        if size <= room:
            room -= size
            found.add(figure.file)
    return frozenset(found)


def render(page: Page) -> str:
    """The page as HTML, with its figures inside."""
    return _rendered(page, embedded(page))


def _rendered(page: Page, inside: frozenset[str]) -> str:
    template = output.environment().get_template("page.html.j2")
    return template.render(
        page=page,
        inside=inside,
        image=output.embedded_image,
        live=lambda drawn: [asdict(panel) for panel in drawn.panels],
        library=lambda name: _own(f"vendor/uplot/{name}"),
        script=_own("figures.js"),
    )


def _own(name: str) -> str:
    """A file of this package."""
    return files("wattio.report").joinpath(name).read_text(encoding="utf-8")
