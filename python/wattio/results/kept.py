"""What a result's own documents say: dictionaries in which damage is said with file and key.

wattio wrote them, so a key that is missing or holds something else than what it wrote means that
somebody, or a disk, has changed the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from wattio.errors import ResultError
from wattio.files.document import Place, spell

Found = TypeVar("Found")


class Shape(BaseModel):
    """What some keys of a document hold, where they are there; it may have others."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class Kept(dict[str, Any]):
    """What a file says, and tables within it; a key that it lacks is said as damage."""

    def __init__(self, path: Path | str, content: Mapping[str, Any], place: Place = ()) -> None:
        """Keep a table; `place` is where it stands in the file, which may have its own parts."""
        super().__init__(
            (key, _within(path, value, (*place, key))) for key, value in content.items()
        )
        self._path, self._place = path, place

    def like(self, content: Mapping[str, Any]) -> Kept:
        """What was derived from this table, which lacks what that lacks."""
        return Kept(self._path, content, self._place)

    def __missing__(self, key: str) -> NoReturn:
        """Raise ResultError."""
        raise ResultError(
            f'{self._path}: has no "{spell((*self._place, key))}": the file is damaged'
        )

    def __reduce__(self) -> tuple[type[Kept], tuple[Path | str, dict[str, Any], Place]]:
        """As pickle and copy take it."""
        return Kept, (self._path, dict(self), self._place)


def numbers(names: Iterable[str]) -> dict[str, Any]:
    """Fields of a shape, for `create_model`: each a number or absent, as null is."""
    return {name: (float | None, None) for name in names}


def _within(path: Path | str, value: Any, place: Place) -> Any:  # noqa: ANN401 (of JSON)
    if isinstance(value, dict):
        return Kept(path, value, place)
    if isinstance(value, list):
        return [_within(path, entry, (*place, at)) for at, entry in enumerate(value)]
    return value


def checked(path: Path | str, text: str | bytes, shape: TypeAdapter[Found]) -> Found:
    """A JSON document in its shape. Raises ResultError that names file and key."""
    try:
        return shape.validate_json(text, strict=True)
    except ValidationError as error:
        raise ResultError(f"{path}: {_told(error)}: the file is damaged") from None


def check(path: Path | str, content: Mapping[str, Any], shape: type[Shape]) -> None:
    """Check a document that was read. Raises ResultError that names file and key."""
    try:
        shape.model_validate(content)
    except ValidationError as error:
        raise ResultError(f"{path}: {_told(error)}: the file is damaged") from None


def _told(error: ValidationError) -> str:
    """The first thing that is wrong, with its key."""
    first = error.errors(include_url=False, include_input=False)[0]
    # Of what may be one of several kinds, the kind that was tried is no key.
    message = first["msg"][0].lower() + first["msg"][1:]
    place = spell(tuple(first["loc"]))
    return f"{place}: {message}" if place else message
