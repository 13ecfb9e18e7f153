"""What becomes of a dump that several processes write together: they offer, the first decides.

A dump that one has dropped, or that lacks a rank, is no dump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio.hpcio import shared_file
from wattio.hpcio.notes import Note


@dataclass(frozen=True)
class Contribution:
    """What a process brings to a dump."""

    step: int
    note: Note


class _WholeNote(Note):
    """What all have done of a dump."""

    def as_part(self) -> dict[str, Any]:
        """The file that it tells of, as the manifest lists it."""
        return {**super().as_part(), "file": shared_file.NAME}


@dataclass(frozen=True)
class Verdict:
    """What the first process says of a dump."""

    path: Path | None = None
    """The file to fill; None where there is none to fill, or it is done."""

    error: str | None = None
    dropped: bool = False
    over: bool = False
    """Whether no process has a dump any more."""

    teller: int | None = None
    """The process whose note is to tell the error; None where notes tell it already."""


def judge(offers: Sequence[Contribution | None], ranks: Sequence[int]) -> Verdict:
    """What becomes of a dump for which processes bring their offers; None: they have ended."""
    found = [offer for offer in offers if offer is not None]
    if not found:
        return Verdict(over=True)
    if any(offer.note.dropped for offer in found):
        return Verdict(dropped=True)
    errors = [offer.note.error for offer in found if offer.note.error is not None]
    if errors:
        return Verdict(error=counted(errors))
    if missing := sorted(set(ranks) - {rank for offer in found for rank in offer.note.ranks}):
        return Verdict(error=f"ranks {missing} ended without this dump")
    if len(steps := sorted({offer.step for offer in found})) > 1:
        return Verdict(error=f"ranks disagree about the step: {steps}")
    return Verdict()


def counted(errors: Sequence[str]) -> str:
    """The first of several errors, and how many there are."""
    return errors[0] + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else "")


def together(offers: Sequence[Contribution | None]) -> Contribution:
    """What all bring, as one note of the first."""
    found = [offer for offer in offers if offer is not None]
    ranks = tuple(rank for offer in found for rank in offer.note.ranks)
    blocks = [fact for offer in found for fact in offer.note.blocks]
    note = _WholeNote(found[0].note.process, ranks, blocks)
    return Contribution(min(offer.step for offer in found), note)
