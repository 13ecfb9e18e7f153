"""What a platform is called and what it cost: `[platform]` of a study, or a file for several.

A study says it of the machines that it measures; a file of `[[platform]]` says it later, of results
whose study did not, and goes before what theirs said:

    [[platform]]
    name = "arm"
    description = "six Odroid HC4, eight hard disks"
    price_eur = 1350.0
    priced = "nodes and disks; Erxleben et al., section V"
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import Document, Strict, nearest
from wattio.kinds.common import Name


class PlatformEntry(Strict):
    """`[platform]`: the machines that are measured, as comparisons of platforms tell of them."""

    name: Name  # what comparisons call it
    description: str = ""  # in words
    # What the metered devices cost, in euros; work is divided by it. Without it nothing is.
    price_eur: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    priced: str = ""  # what the price is of, and where it is known from


class PlatformFile(Strict):
    """Platforms by the names that `wattio compare --platforms` gives them."""

    platform: list[PlatformEntry] = Field(min_length=1)


def from_document(source: Document) -> list[PlatformEntry]:
    """The checked entries of a file, of whatever names. Raises InputError for one there twice."""
    found = document.validate(PlatformFile, source).platform
    names = [entry.name for entry in found]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise source.error(("platform", place, "name"), f'"{name}" is named twice')
    return found


def read(path: Path, names: Sequence[str]) -> dict[str, PlatformEntry]:
    """Entries by name. Raises InputError for a name that is not among `names`."""
    source = document.read(path)
    found = from_document(source)
    for place, entry in enumerate(found):
        if entry.name not in names:
            message = f'"{entry.name}" is not one of the platforms; {nearest(entry.name, names)}'
            raise source.error(("platform", place, "name"), message)
    return {entry.name: entry for entry in found}


def of_result(content: object) -> PlatformEntry | None:
    """What a result's study said of its platform; None if it said nothing. Raises InputError."""
    if content is None:
        return None
    if not isinstance(content, dict):
        raise InputError("platform: is not a table")
    return document.check(PlatformEntry, content, "platform")
