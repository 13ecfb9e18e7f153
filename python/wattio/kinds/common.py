"""What study files of several kinds have in common."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

from wattio.errors import InputError
from wattio.files.document import Document, Strict, another_kind, nearest
from wattio.results.runs import Setting

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+=, -]{0,63}$")]
Scale = Annotated[float, Field(gt=0, le=1e6)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]

Item = TypeVar("Item")


def _distinct(values: list[Item]) -> list[Item]:
    """The list, where nothing is in it twice; true is not 1. Raises ValueError."""
    seen: set[tuple[bool, Item]] = set()
    for value in values:
        if (key := (isinstance(value, bool), value)) in seen:
            raise ValueError(f"{value!r} is listed twice")
        seen.add(key)
    return values


Distinct = Annotated[list[Item], AfterValidator(_distinct)]
"""A list of values that are each run by themselves: none may be in it twice."""

STUDIES = ("simulation", "measurement", "fleet")
"""Kinds of studies that can be run."""


class PolicyEntry(Strict):
    """`[[policy]]`: a policy with its settings, under a label that reports show."""

    name: str  # one of `wattio simulate --list`
    label: Name | None = None  # what reports call it; its name where nothing is given
    # What differs from the policy's defaults.
    settings: dict[str, Setting] = Field(default_factory=dict)
    loads: list[str] | None = None  # the loads that it runs under; all where nothing is given

    @property
    def shown(self) -> str:
        """The label, or the name where no label is given."""
        return self.label or self.name


def kind_of(source: Document) -> str:
    """The kind of study that a document is, one of STUDIES. Raises InputError."""
    head = source.content.get("study")
    kind = head.get("kind") if isinstance(head, dict) else None
    if head is None:
        other = another_kind(source.content, ("study",))
        told = other or "is not a study: it has no table [study]"
        raise InputError(f"{source.path}: {told}")
    if kind not in STUDIES:
        what = "is required; " if kind is None else f"{kind!r} is not known; "
        raise source.error(("study", "kind"), what + nearest(str(kind or ""), STUDIES))
    return str(kind)
