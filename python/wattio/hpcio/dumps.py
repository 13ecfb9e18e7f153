"""Dumps on disk: a folder of part files that gets its name when all of it is there.

    dump-00000010/            whole: manifest.json, part-000003.h5, part-000007.h5
    dump-00000020.partial/    not (yet): parts, and a note of each process that is done with its own

A note (`part-000003.json`) tells whose blocks a process has written, or why it has not. Whoever
leaves the note that completes the dump makes the manifest of the notes and renames the folder; so
nobody has to be asked, and a folder without `.partial` is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wattio.errors import InputError, ResultError
from wattio.hpcio import parts

MANIFEST = "manifest.json"
PARTIAL = ".partial"
_PUBLISHING = "publishing"
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

    def as_part(self) -> dict[str, Any]:
        """The file that it tells of, as the manifest lists it."""
        file = parts.file_name(self.process)
        return {"file": file, "ranks": list(self.ranks), "blocks": self.blocks}

    def as_json(self) -> dict[str, Any]:
        """The note as plain data."""
        return {**asdict(self), "ranks": list(self.ranks)}


@dataclass(frozen=True)
class Dumps:
    """The dumps of a running program: their folder, and the ranks that make one whole."""

    output: Path
    approach: str
    ranks: tuple[int, ...]
    sync: bool = False

    def prepare(self) -> None:
        """Make the folder, and remove what earlier runs did not finish. Raises InputError."""
        try:
            self.output.mkdir(parents=True, exist_ok=True)
            for folder in find(self.output, partial=True).values():
                shutil.rmtree(folder)
        except OSError as error:
            raise InputError(
                f"output {self.output}: cannot be used: {error.strerror} ({error.filename})"
            ) from error

    def begin(self, step: int) -> Path:
        """The folder to write parts of a dump into. Raises PartFailed."""
        if (self.output / name(step)).exists():
            raise parts.PartFailed(f"{self.output / name(step)}: exists already")
        folder = self.output / (name(step) + PARTIAL)
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise parts.PartFailed(parts.explain(folder, error)) from error
        return folder

    def leave(self, step: int, note: Note) -> str | None:
        """Leave a note, and publish the dump if it was the last one; an error in words or None."""
        folder = self.output / (name(step) + PARTIAL)
        try:
            folder.mkdir(exist_ok=True)
            content = {**note.as_json(), "ranks_expected": list(self.ranks)}
            _put(folder / note.path, content, self.sync)
            left, _ = notes(folder)
            if {rank for one in left if one.whole for rank in one.ranks} >= set(self.ranks):
                self.publish(step, left)
                for one in left:
                    (self.output / name(step) / one.path).unlink(missing_ok=True)
        except FileNotFoundError:
            # Another process has just left the last note, and renamed the folder.
            return None
        except OSError as error:
            return parts.explain(folder, error)
        return None

    def is_lost(self, step: int) -> bool:
        """Whether a process has left word that its part of a dump will not come."""
        found, _ = notes(self.output / (name(step) + PARTIAL))
        return any(not note.whole for note in found)

    def publish(self, step: int, left: Sequence[Note]) -> None:
        """Write the manifest of a dump whose parts are all there, and give it its name.

        Raises OSError. Of several that try, one does.
        """
        folder = self.output / (name(step) + PARTIAL)
        content = {
            "wattio_hpcio": parts.VERSION,
            "step": step,
            "approach": self.approach,
            "ranks": list(self.ranks),
            "parts": [one.as_part() for one in sorted(left, key=lambda one: one.process)],
        }
        with contextlib.suppress(FileExistsError):
            (folder / _PUBLISHING).touch(exist_ok=False)
            _put(folder / MANIFEST, content, self.sync)
            whole = folder.rename(self.output / name(step))
            (whole / _PUBLISHING).unlink()
            if self.sync:
                parts.sync(self.output)


def name(step: int) -> str:
    """The name of a whole dump."""
    return f"dump-{step:08}"


def find(output: Path, *, partial: bool = False) -> dict[int, Path]:
    """The folders of whole dumps, or of those that are not, by their step. Raises OSError."""
    found = {}
    for path in output.iterdir():
        match = _NAME.fullmatch(path.name)
        if match and path.is_dir() and bool(match[2]) == partial:
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def _put(path: Path, content: dict[str, Any], sync: bool) -> None:
    """Write JSON that appears when it is whole. Raises OSError."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    new.rename(path)
    if sync:
        parts.sync(path.parent)


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
        raise ResultError(f"no note of a dump: {caught!r}") from caught
