"""What the result folders of all kinds of studies have in common."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field

from wattio.errors import ResultError, storage_reason
from wattio.files import document, toml_text
from wattio.files.named import as_text, read_bytes, refuse_what_blocks
from wattio.files.whole import write_whole
from wattio.results import machine
from wattio.results.catalog import Catalog
from wattio.results.kept import Kept, Shape, check
from wattio.results.plan import Plan
from wattio.results.runs import Recorded

KINDS = ("simulation", "measurement", "fleet", "governor")
"""What a result folder can hold: `kind` in its machine.json."""


_log = logging.getLogger(__name__)

LEFT_BY_DAEMON = "was left by wattiod; only `wattio report` and `wattio recompute` take it"


def kind_of(path: Path) -> str:
    """What a result folder holds, one of KINDS. Raises ResultError where it is not one."""
    if not path.is_dir():
        raise ResultError(f"{path}: {'is not a folder' if path.exists() else 'not found'}")
    try:
        content = json.loads(read_bytes(path / "machine.json"))
    except OSError as error:
        if error.errno == errno.EINVAL:  # It is there, and is not a file.
            raise ResultError(f"{error.filename}: {error.strerror}") from error
        content = None
    except (ValueError, RecursionError):
        content = None
    # Simulations do not say what they are.
    kind = content.get("kind", "simulation") if isinstance(content, dict) else None
    if kind not in KINDS:
        raise ResultError(f"{path}: is not a result folder: it has no usable machine.json")
    try:
        # Not before: whatever else was named may have a whole system beneath it.
        refuse_what_blocks(path)
    except OSError as error:
        raise ResultError(f"{error.filename or path}: {error.strerror}") from error
    return str(kind)


class Machine(Shape):
    """machine.json: the machine, the versions and the plan."""

    plan: list[str] = Field(default_factory=list)
    study_file: str = ""
    started_utc: str = ""
    seeds: list[int] = Field(default_factory=list)
    processor: str | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    kernel: str = ""
    python: str = ""
    wattio: str = ""
    libraries: dict[str, str] = Field(default_factory=dict)
    git_commit: str | None = None


class ResultFolder:
    """What the result folders of all kinds of studies have in common."""

    kind: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ("samples", "raw", "report")
    inputs_shape: ClassVar[type[Shape]] = Shape
    resolved_shape: ClassVar[type[Shape]] = Shape

    def __init__(self, path: Path) -> None:
        """Open a folder that exists. Raises ResultError if it is not one of this kind."""
        self.path = path
        found = kind_of(path)
        if found == "governor":
            raise ResultError(f"{path}: {LEFT_BY_DAEMON}")
        if not (path / "catalog.sqlite").is_file():
            raise ResultError(f"{path}: is not a result folder: it has no catalog.sqlite")
        if found != self.kind:
            raise ResultError(f"{path}: holds a {found}, not a {self.kind}")

    @classmethod
    def create(cls, plan: Plan, results: Path, now_utc: datetime) -> Self:
        """Begin a new folder `results/<study>/<UTC time>-<short hash>/`."""
        path = results / plan.name / f"{now_utc:%Y%m%dT%H%M%SZ}-{plan.short_hash}"
        facts = machine.describe() | {
            "kind": cls.kind,
            **plan.facts,
            "study_file": str(plan.source.path.resolve()),
            "plan": [iteration.identity for iteration in plan.iterations],
            "started_utc": now_utc.isoformat(timespec="seconds"),
        }
        texts = {
            "study.toml": plan.source.text,
            "inputs.json": json.dumps(plan.inputs, indent=1, allow_nan=False) + "\n",
            "resolved.toml": toml_text.dump(plan.resolved),
        }
        _log.debug("makes %s", path)
        made: Path | None = None
        try:
            path = made = _anew(path)
            for name in cls.parts:
                (path / name).mkdir()
            for name, text in texts.items():
                # What is resolved hides secrets; the others have them as given, to resume with.
                open_to_all = name == "resolved.toml" or not plan.is_secret
                (path / name).touch(0o666 if open_to_all else 0o600)
                (path / name).write_text(text, encoding="utf-8")
            with contextlib.closing(Catalog(path / "catalog.sqlite")) as catalog:
                catalog.add_runs(plan.runs)
            # Last: a folder without it is none, and what a kill leaves here is not half a folder.
            write_json(path / "machine.json", facts)
        except (ResultError, OSError, sqlite3.Error) as error:
            if made is not None:
                shutil.rmtree(made, ignore_errors=True)
            why = (storage_reason(error) or str(error)).removeprefix(f"{path}: ")
            raise ResultError(f"{path}: cannot be created: {why}") from error
        return cls(path)

    @property
    def name(self) -> str:
        """The folder's own name: time and short hash."""
        return self.path.resolve().name

    def check_again(self, plan: Plan) -> None:
        """Raise ResultError if a plan that was made again is no longer the folder's own."""
        if [iteration.identity for iteration in plan.iterations] != self.machine()["plan"]:
            raise ResultError(
                f"{self.path}: a file that the study reads, or wattio itself, has changed since it"
                " was started; its iterations would not be comparable; run it as a new study"
            )

    def complete(self) -> bool:
        """Whether every iteration of the plan is done."""
        return self.done() >= set(self.machine()["plan"])

    def done(self) -> set[str]:
        """Identities of the iterations that are done."""
        with self.catalog(reading=True) as catalog:
            return catalog.done()

    def remaining(self, plan: Plan) -> list[Any]:
        """The iterations of a plan that are not done."""
        return plan.without(self.done())

    def inputs(self) -> dict[str, Any]:
        """What the study read and how it was asked for."""
        return self._json("inputs.json", self.inputs_shape)

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
                    f"{self.path}: another wattio is using it; wait until it ends"
                ) from None
            except OSError as error:
                # A file system may know no locks; one that takes no file takes no results either.
                if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
                    raise ResultError(
                        f"{self.path}: cannot be written: {error.strerror}"
                    ) from error
            yield

    def study_source(self) -> document.Document:
        """The study file as given, under the path it had, so that its relative paths still hold."""
        text = self._read("study.toml")
        return document.parse(Path(self.machine()["study_file"]), text)

    def unchanged_source(self) -> document.Document:
        """The study file as given. Raises ResultError where it says something else by now."""
        source = self.study_source()
        try:
            current: str | None = self.as_begun(as_text(read_bytes(source.path), "utf-8-sig"))
        except OSError:
            current = source.text
        except UnicodeDecodeError:
            current = None
        if current != source.text:
            raise ResultError(
                f"{source.path}: has changed since {self.path} was started; run it as a new study,"
                " or restore the file (the folder keeps it as study.toml)"
            )
        return source

    def study_text(self) -> str:
        """The study file as given."""
        return self._read("study.toml")

    def as_begun(self, text: str) -> str:
        """A study file's text, with what the folder's own was changed by when it was begun."""
        return text

    def resolved(self) -> dict[str, Any]:
        """The study with every default filled in."""
        path = self.path / "resolved.toml"
        content = document.read(path).content
        check(path, content, self.resolved_shape)
        return Kept(path, content)

    def machine(self) -> dict[str, Any]:
        """The machine, the versions and the plan."""
        return self._json("machine.json", Machine)

    def catalog(self, *, reading: bool = False) -> Catalog:
        """Open the catalog, for `reading` only or for more; the caller closes it."""
        path = self.path / "catalog.sqlite"
        # One without tables would be given some, and have no result.
        if path.stat().st_size == 0:
            raise ResultError(f"{path}: is not a usable catalog: it is empty")
        return Catalog(path, reading=reading)

    def usable(self) -> dict[str, bool]:
        """Of the iterations that are done, by identity, whether means may be taken over them."""
        with self.catalog(reading=True) as catalog:
            return catalog.usable()

    def iterations(self) -> list[Recorded]:
        """Every iteration that is done."""
        with self.catalog(reading=True) as catalog:
            return catalog.iterations()

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except OSError as error:
            raise ResultError(f"{self.path / name}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ResultError(
                f"{self.path / name}: is not text in UTF-8 (byte {error.start})"
            ) from error

    def _json(self, name: str, shape: type[Shape] = Shape) -> dict[str, Any]:
        try:
            content = json.loads(self._read(name))
        except (json.JSONDecodeError, RecursionError) as error:
            raise ResultError(f"{self.path / name}: is not valid JSON: {error}") from error
        if not isinstance(content, dict):
            raise ResultError(f"{self.path / name}: is not a JSON object")
        check(self.path / name, content, shape)
        return Kept(self.path / name, content)


def _anew(path: Path) -> Path:
    """Make a folder that was not there: by another name where somebody began in the same second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made, count = path, 1
    while True:
        try:
            made.mkdir()
        except FileExistsError:
            count += 1
            made = path.with_name(f"{path.name}-{count}")
        else:
            return made


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that appears under its name when it is whole."""
    write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
