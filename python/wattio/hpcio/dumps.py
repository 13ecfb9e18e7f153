"""Dumps on disk: a folder of part files that gets its name when all of it is there.

    dump-00000010/            whole: manifest.json, part-000003.h5, part-000007.h5
    dump-00000020.partial/    not (yet): parts, and a note of each process that is done with its own

A note (`part-000003.json`) tells whose blocks a process has written, or why it has not. Whoever
leaves the note that completes the dump makes the manifest of the notes and renames the folder; so
nobody has to be asked, and a folder without `.partial` is whole.

A dump of which one part will not come is lost, and its data go at once: they are of no use, and
the disk may be full. Each process looks at the notes after it has left its own, and takes away the
parts that notes tell of if one says that the dump is lost. Of two processes, whoever leaves its
note later sees both; and no part is taken away while it is being written. A note for which there is
no room is an empty file, which takes none: it says that the dump is lost, too.

On a file system that shows what others have made with a delay, as NFS does, two processes may each
miss the other's note. So one looks again at the end, when all are done, at each dump of which
nobody has said that it gave it its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wattio.errors import InputError
from wattio.hpcio import notes, parts
from wattio.hpcio.notes import Note

MANIFEST = "manifest.json"
PARTIAL = ".partial"
_PUBLISHING = "publishing"
_LOOK = ".look"
_NAME = re.compile(r"dump-(\d{8,})(\.partial)?", re.ASCII)


@dataclass(frozen=True)
class Dumps:
    """The dumps of a running program: their folder, and the ranks that make one whole."""

    output: Path
    approach: str
    ranks: tuple[int, ...]
    sync: bool = False
    published: set[int] = field(default_factory=set, compare=False)
    """Steps of the dumps to which this process gave their name."""

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
        except ValueError as error:
            raise InputError(f"output {str(self.output)!r}: cannot be used: {error}") from error

    def begin(self, step: int) -> Path:
        """The folder to write parts of a dump into. Raises PartFailed."""
        if (self.output / name(step)).exists():
            raise parts.PartFailed(
                f"{self.output / name(step)}: exists already, and dumps are not overwritten: remove"
                " it, or choose another output"
            )
        folder = self.output / (name(step) + PARTIAL)
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise parts.PartFailed(parts.explain(folder, error)) from error
        return folder

    def leave(self, step: int, note: Note) -> str | None:
        """Leave a note, and publish the dump if it was the last one; an error in words or None.

        The data of a dump that is lost are removed.
        """
        folder = self.output / (name(step) + PARTIAL)
        try:
            folder.mkdir(exist_ok=True)
            note.put(folder, self.ranks, sync=self.sync)
            left, _ = notes.read(folder)
            if notes.loss(folder, left):
                _remove_parts(folder, left)
            elif not self._silent(left):
                self._publish_noted(step, left)
        except FileNotFoundError:
            # Another process has just left the last note, and renamed the folder; or somebody has
            # removed it, which shows when one looks again.
            return None
        except OSError as error:
            text = parts.explain(folder, error)
            if folder.exists():
                self.lose(step, replace(note, blocks=[], error=note.error or text))
            return text
        return None

    def lose(self, step: int, note: Note) -> None:
        """Leave a note on a dump that is known to be lost; its own part goes first, for room."""
        folder = self.output / (name(step) + PARTIAL)
        _remove_parts(folder, [note, *notes.read(folder)[0]])
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            try:
                note.put(folder, self.ranks, sync=self.sync)
            except OSError:
                (folder / note.path).touch()
        # Others may have left theirs meanwhile, and not have known.
        _remove_parts(folder, notes.read(folder)[0])

    def loss(self, step: int) -> Note | None:
        """The note of a process whose part of a dump will not come; None where all may."""
        folder = self.output / (name(step) + PARTIAL)
        return notes.loss(folder, notes.read(folder)[0])

    def look_again(self, step: int) -> str | None:
        """Publish a dump that has no name yet though all are done; an error in words, or None."""
        folder, whole = self.output / (name(step) + PARTIAL), self.output / name(step)
        _refresh(self.output)
        if whole.exists():
            return None
        _refresh(folder)
        left, _ = notes.read(folder)
        if loss := notes.loss(folder, left):
            return loss.error or f"{folder}: was dropped"
        if silent := self._silent(left):
            return (
                f"{folder}: ranks {silent} have left no note there: they did not end this dump, or"
                " somebody else has removed files"
            )
        try:
            (folder / _PUBLISHING).unlink(missing_ok=True)
            self._publish_noted(step, left)
        except OSError as error:
            return parts.explain(Path(error.filename or folder), error)
        return None

    def _silent(self, left: Sequence[Note]) -> list[int]:
        """The ranks of whose blocks no note tells."""
        return sorted(set(self.ranks) - {rank for one in left for rank in one.ranks})

    def _publish_noted(self, step: int, left: Sequence[Note]) -> None:
        self.publish(step, left)
        for one in left:
            (self.output / name(step) / one.path).unlink(missing_ok=True)

    def publish(self, step: int, left: Sequence[Note]) -> None:
        """Write the manifest of a dump whose parts are all there, and give it its name.

        Raises OSError. Of several that try, one does.
        """
        folder = self.output / (name(step) + PARTIAL)
        listed = [one.as_part() for one in sorted(left, key=lambda one: one.process)]
        content = {
            "wattio_hpcio": parts.VERSION,
            "step": step,
            "approach": self.approach,
            "ranks": list(self.ranks),
            "parts": listed,
        }
        try:
            (folder / _PUBLISHING).touch(exist_ok=False)
        except FileExistsError:
            return
        there = {path.name for path in folder.iterdir()}
        for part in listed:
            if part["file"] not in there:
                path = str(folder / part["file"])
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        parts.put_json(folder / MANIFEST, content, sync=self.sync)
        whole = folder.rename(self.output / name(step))
        self.published.add(step)
        with contextlib.suppress(OSError):
            (whole / _PUBLISHING).unlink()
        if self.sync:
            parts.bring_to_disk(self.output)


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


def _refresh(folder: Path) -> None:
    """Change a folder: NFS looks anew at what others have made in one that it changes itself."""
    with contextlib.suppress(OSError):
        (folder / _LOOK).touch()
        (folder / _LOOK).unlink()


def _remove_parts(folder: Path, left: Sequence[Note]) -> None:
    """Remove the data that notes tell of, as far as they are there."""
    for note in left:
        with contextlib.suppress(OSError):
            (folder / parts.file_name(note.process)).unlink(missing_ok=True)
