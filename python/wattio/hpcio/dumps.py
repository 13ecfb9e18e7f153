"""Dumps on disk: a folder of part files that gets its name when all of it is there.

    dump-00000010/            whole: manifest.json, part-000003.h5, part-000007.h5, fields.h5
    dump-00000020.partial/    not (yet): parts, and notes of what became of them

A note (`part-000003.json`) tells whose blocks a writer has written, or why it has not. They are
`wattio-io-writer`'s; here they are found and read.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattio.errors import ResultError

MANIFEST = "manifest.json"
PARTIAL = ".partial"
_NAME = re.compile(r"dump-(\d{8,})(\.partial)?", re.ASCII)


@dataclass(frozen=True)
class Note:
    """What a process has done of a dump."""

    process: int
    ranks: tuple[int, ...]
    """Whose blocks it has written, or should have."""

    blocks: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    dropped: bool = False

    @property
    def whole(self) -> bool:
        """Whether the blocks of its ranks are on disk."""
        return self.error is None and not self.dropped

    @property
    def path(self) -> str:
        """The name of its file in the partial folder."""
        return f"part-{self.process:06}.json"


def name(step: int) -> str:
    """The name of a whole dump."""
    return f"dump-{step:08}"


def find(output: Path, *, partial: bool = False) -> dict[int, Path]:
    """The folders of whole dumps, or of those that are not, by their step. Raises OSError."""
    found = {}
    for path in output.iterdir():
        match = _NAME.fullmatch(path.name)
        if not match or not path.is_dir() or bool(match[2]) != partial:
            continue
        if path.name.removesuffix(PARTIAL) == name(int(match[1])):
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def notes(folder: Path) -> tuple[list[Note], set[int]]:
    """The notes in a partial folder, and the ranks that would make its dump whole."""
    found: list[Note] = []
    expected: set[int] = set()
    for path in sorted(folder.glob("part-*.json")):
        # One may have just been taken away, or be no note of ours.
        with contextlib.suppress(OSError, ResultError):
            note, ranks = parse_note(path.read_text(encoding="utf-8", errors="replace"))
            found.append(note)
            expected |= ranks
    return found, expected


def parse_note(text: str) -> tuple[Note, set[int]]:
    """Read a note, and the ranks that would make its dump whole. Raises ResultError."""
    try:
        content = json.loads(text)
        error = content["error"]
        note = Note(
            int(content["process"]),
            tuple(int(rank) for rank in content["ranks"]),
            list(content["blocks"]),
            None if error is None else str(error),
            bool(content["dropped"]),
        )
        return note, {int(rank) for rank in content["ranks_expected"]}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as caught:
        raise ResultError(f"not a note of a dump: {caught!r}") from caught
