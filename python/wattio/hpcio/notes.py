"""Notes of what processes have done of a dump: files in the folder of one that is not whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wattio.errors import ResultError
from wattio.hpcio import parts


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

    def put(self, folder: Path, expected: Sequence[int], *, sync: bool) -> None:
        """Leave the note in a folder; `expected` are the ranks that make its dump whole.

        Raises OSError.
        """
        content = {**asdict(self), "ranks": list(self.ranks), "ranks_expected": list(expected)}
        parts.put_json(folder / self.path, content, sync=sync)

    def as_part(self) -> dict[str, Any]:
        """The file that it tells of, as the manifest lists it."""
        file = parts.file_name(self.process)
        return {"file": file, "ranks": list(self.ranks), "blocks": self.blocks}


def loss(folder: Path, left: Sequence[Note]) -> Note | None:
    """A note in a partial folder that says that its part will not come; if any, of an error."""
    for note in sorted(left, key=lambda one: one.error is None):
        if not note.whole:
            return note
    for path in _notes(folder):
        if _is_empty(path):
            return Note(-1, (), error=f"{path}: there was no room for this note")
    return None


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        # The dump has just become whole.
        return False


def _notes(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.json"))


def read(folder: Path) -> tuple[list[Note], set[int]]:
    """The notes in a partial folder, and the ranks that would make its dump whole."""
    found: list[Note] = []
    expected: set[int] = set()
    for path in _notes(folder):
        # One may have just been taken away, or be no note of ours.
        with contextlib.suppress(OSError, ResultError):
            note, ranks = parse(path.read_text(encoding="utf-8", errors="replace"))
            found.append(note)
            expected |= ranks
    return found, expected


def parse(text: str) -> tuple[Note, set[int]]:
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
        raise ResultError(f"no note of a dump: {caught!r}") from caught
