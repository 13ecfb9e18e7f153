"""What the result folders of all kinds of studies have in common."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wattio.errors import ResultError
from wattio.files import document
from wattio.results.catalog import Catalog, Recorded

KINDS = ("simulation", "measurement", "fleet", "governor")
"""What a result folder can hold: `kind` in its machine.json."""


def kind_of(path: Path) -> str:
    """What a result folder holds, one of KINDS. Raises ResultError where it is not one."""
    try:
        content = json.loads((path / "machine.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        content = None
    # Simulations do not say what they are.
    kind = content.get("kind", "simulation") if isinstance(content, dict) else None
    if kind not in KINDS:
        raise ResultError(f"{path}: is not a result folder: it has no usable machine.json")
    return str(kind)


class ResultFolder:
    """What the result folders of all kinds of studies have in common."""

    def __init__(self, path: Path) -> None:
        """Open a folder that exists. Raises ResultError where it is not a result folder."""
        self.path = path
        if not (path / "catalog.sqlite").is_file() or not (path / "machine.json").is_file():
            raise ResultError(f"{path}: is not a result folder: it has no catalog.sqlite")
        if kind_of(path) == "governor":
            message = "was left by wattiod; only `wattio report` and `wattio recompute` take it"
            raise ResultError(f"{path}: {message}")

    @property
    def name(self) -> str:
        """The folder's own name: time and short hash."""
        return self.path.resolve().name

    @property
    def kind(self) -> str:
        """The kind of study that it holds."""
        return str(self.machine().get("kind", "simulation"))

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from running into the folder. Raises ResultError where one does.

        They would run the same iterations once more; a recording of theirs would be taken for one
        that has ended, and removed under their feet.
        """
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context((self.path / "lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ResultError(
                    f"{self.path}: another wattio is at work in it; wait until it ends"
                ) from None
            except OSError as error:
                # A file system may know no locks; one that takes no file takes no results either.
                if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
                    raise ResultError(f"{self.path}: takes no results: {error.strerror}") from error
            yield

    def study_source(self) -> document.Document:
        """The study file as given, under the path it had, so that its relative paths still hold."""
        text = self._read("study.toml")
        return document.parse(Path(self.machine()["study_file"]), text)

    def unchanged_source(self) -> document.Document:
        """The study file as given. Raises ResultError where it says something else by now."""
        source = self.study_source()
        try:
            current = source.path.read_text(encoding="utf-8")
        except OSError:
            current = source.text
        if current != source.text:
            raise ResultError(
                f"{source.path}: has changed since {self.path} was begun; run it as a new study,"
                " or put the file back as it was (the folder keeps it as study.toml)"
            )
        return source

    def study_text(self) -> str:
        """The study file as given."""
        return self._read("study.toml")

    def resolved(self) -> dict[str, Any]:
        """The study with every default filled in."""
        return dict(document.read(self.path / "resolved.toml").content)

    def machine(self) -> dict[str, Any]:
        """The machine, the versions and the plan."""
        return self._json("machine.json")

    def catalog(self) -> Catalog:
        """Open the catalog; the caller closes it."""
        return Catalog(self.path / "catalog.sqlite")

    def iterations(self) -> list[Recorded]:
        """Every iteration that is done."""
        catalog = self.catalog()
        try:
            return catalog.iterations()
        finally:
            catalog.close()

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except OSError as error:
            raise ResultError(f"{self.path / name}: cannot be read: {error.strerror}") from error

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._read(name))
        except json.JSONDecodeError as error:
            raise ResultError(f"{self.path / name}: is not valid JSON: {error}") from error
        return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that appears under its name when it is whole."""
    part = path.with_name(f".{path.name}.part")
    text = json.dumps(content, indent=1, allow_nan=False)
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)
