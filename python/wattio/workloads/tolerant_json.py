"""JSON as benchmarks write it: text around it, several objects, trailing commas, nan and inf.

What is no number (nan, inf, a number too large) is absent (None).
"""

from __future__ import annotations

import json
import re
from typing import Any

# A string is taken to end with its line at the latest, so that a lone quotation mark in the text
# around does no harm.
_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\\n]|\\.)*+"?)'
    r"|(?P<comma>,(?=\s*[}\]]))"
    r"|(?P<number>[-+]?\b(?:nan|inf|infinity)\b)",
    re.IGNORECASE,
)
_START = re.compile(r"^\{", re.MULTILINE)
_MOST = 2.0**63
_NEXT = re.compile(r"\s*(?=\{)")


def objects(text: str) -> list[dict[str, Any]]:
    """Every JSON object that begins a line, or follows another, in order; what is none is passed.

    Where none begins a line, the first brace is tried.
    """
    mended = _TOKEN.sub(_mend, text)
    starts = [match.start() for match in _START.finditer(mended)]
    if not starts and "{" in mended:
        starts = [mended.index("{")]
    found: list[dict[str, Any]] = []
    done = 0
    for start in starts:
        if start < done:
            continue
        at: int | None = start
        while at is not None:
            value, done = _decode(mended, at)
            if value is None:
                break
            found.append(value)
            following = _NEXT.match(mended, done)
            at = following.end() if following else None
    return found


def number(value: object) -> float | None:
    """A number; None for anything else: a truth value, infinity, what no measurement can be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if abs(found) < _MOST else None


def count(value: object) -> int | None:
    """A whole number that is not negative; None for anything else."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found == int(found) else None


def table(value: object) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    """An array; an empty one for anything else."""
    return value if isinstance(value, list) else []


def text(value: object, otherwise: str = "") -> str:
    """A string; `otherwise` for anything else."""
    return value if isinstance(value, str) else otherwise


_DECODER = json.JSONDecoder(strict=False)


def _decode(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start + 1
    return value, end


def _mend(match: re.Match[str]) -> str:
    if match["string"] is not None:
        return match["string"]
    return "" if match["comma"] is not None else "null"
