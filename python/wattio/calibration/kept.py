"""What is kept of a calibration: a folder with a record of it, and a CSV file of its points.

Points are dataclasses of numbers, a line for each, under a line with their names. An absent value
is an empty field.
"""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError

from wattio.errors import InputError
from wattio.files.document import Strict, text_of
from wattio.files.whole import write_whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

POINTS = "points.csv"

_LARGEST = 1e15
"""Beyond any of the quantities; keeps sums and squares finite."""

P = TypeVar("P", bound="DataclassInstance")
R = TypeVar("R", bound=Strict)


def columns(kind: type[DataclassInstance]) -> tuple[str, ...]:
    """The names of a point's values."""
    return tuple(field.name for field in fields(kind))


def dump(kind: type[P], points: Iterable[P], *, header: bool = True) -> str:
    """Points as text, with a line of column names if it is asked for."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(columns(kind))
    for point in points:
        values = (getattr(point, name) for name in columns(kind))
        writer.writerow("" if v is None else int(v) if isinstance(v, bool) else v for v in values)
    return out.getvalue()


def rows(
    kind: type[DataclassInstance], text: str, where: str
) -> Iterator[tuple[dict[str, str], str]]:
    """Values by name and the place of each line. Raises InputError.

    A last line without its end was torn, and is left out.
    """
    names = columns(kind)
    lines = text[: text.rfind("\n") + 1].replace("\0", "").splitlines()
    if not lines or lines[0] != ",".join(names):
        raise InputError(f"{where}:1: must name the columns {','.join(names)}")
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        row = line.split(",")
        if len(row) != len(names):
            raise InputError(f"{where}:{number}: has {len(row)} fields; needs {len(names)}")
        yield dict(zip(names, row, strict=True)), f"{where}:{number}"


def numbers(texts: Mapping[str, str], whole: Collection[str], where: str) -> dict[str, Any]:
    """Numbers of 0 or more, by name. Raises InputError."""
    return {name: _number(name, text, name in whole, where) for name, text in texts.items()}


def _number(name: str, text: str, whole: bool, where: str) -> float | int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LARGEST:
        raise InputError(f"{where}: {name}: {text!r} is not a number of 0 or more")
    if whole and value != int(value):
        raise InputError(f"{where}: {name}: {text!r} is not a whole number")
    return int(value) if whole else value


class KeptFolder(Generic[R, P]):
    """Such a folder. Kinds of calibrations say what their records and points are."""

    record_file: str
    record_kind: type[R]
    point_kind: type[P]
    parse: Callable[[str, str], list[P]]

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self.path = path

    def create(self) -> None:
        """Make it. Raises InputError where there is something, or it cannot be made."""
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            raise InputError(
                f"{self.path}: already exists; move it away, or fit it again with --from"
            ) from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be created: {error.strerror}") from None
        (self.path / POINTS).write_text(dump(self.point_kind, []), encoding="utf-8")

    def keep(self, record: R) -> None:
        """Write what is measured."""
        self.write(self.record_file, record.model_dump())

    def write(self, name: str, content: object) -> None:
        """Write a file of JSON, whole or not at all."""
        write_whole(self.path / name, json.dumps(content, indent=2, allow_nan=False) + "\n")

    def add(self, point: P) -> None:
        """Write a point."""
        with (self.path / POINTS).open("a", encoding="utf-8") as file:
            file.write(dump(self.point_kind, [point], header=False))

    def remove_if_empty(self) -> bool:
        """Take it away if it has no points; whether it had none."""
        if self.points():
            return False
        shutil.rmtree(self.path)
        return True

    def record(self) -> R:
        """What was measured. Raises InputError."""
        path = self.path / self.record_file
        try:
            return self.record_kind.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(f"{path}: {place}: {first['msg']}".replace(": : ", ": ")) from None

    def points(self) -> list[P]:
        """Every point that was measured. Raises InputError."""
        path = self.path / POINTS
        return self.parse(text_of(path), str(path))
