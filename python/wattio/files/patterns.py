"""What a regular expression of a name allows, in words."""

from __future__ import annotations

import re

_FORM = re.compile(
    r"\^(?:\[(?P<first>[^\]]+)\])?\[(?P<all>[^\]]+)\]\{(?P<least>\d+),(?P<most>\d+)\}\$"
)
_RANGES = {"A-Z": "A to Z", "a-z": "a to z", "0-9": "0 to 9"}


def allowed(pattern: str) -> str | None:
    """The characters that a pattern allows, and how many; None for a pattern of another form."""
    found = _FORM.fullmatch(pattern)
    if found is None:
        return None
    first = found["first"]
    most = int(found["most"]) + (first is not None)
    least = int(found["least"]) + (first is not None)
    text = f"allowed are {least} to {most} of {_characters(found['all'])}"
    return f"{text}, beginning with {_characters(first)}" if first else text


def _characters(inside: str) -> str:
    ranges = [told for given, told in _RANGES.items() if given in inside]
    for given in _RANGES:
        inside = inside.replace(given, "")
    marks = " ".join(mark for mark in inside if mark != " ")
    blanks = ["blanks"] if " " in inside else []
    return ", ".join([*ranges, *([marks] if marks else []), *blanks])
