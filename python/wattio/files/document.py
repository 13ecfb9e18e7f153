"""Reading of TOML files into pydantic models, with errors that name file, line and key."""

from __future__ import annotations

import difflib
import logging
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from wattio.errors import InputError, unusable
from wattio.files.named import as_text, read_bytes
from wattio.files.patterns import allowed

Place = tuple[str | int, ...]
"""Where a value stands in a document: keys, and indices of arrays of tables."""

Model = TypeVar("Model", bound=BaseModel)

_log = logging.getLogger(__name__)

_TOLD_MOST = 8
"""So many errors of a file are told at once."""

KINDS = {
    "study": "a study",
    "profile": "a profile",
    "peak": "a theoretical peak",
    "hpcio": "a configuration of the I/O middleware",
    "latency": "a configuration of wattiod",
    "export": "a configuration of wattio-target",
    "purchase": "a list of purchases",
    "cores": "a server description",
    "core_frequency": "a power model",
    "platform": "a description of platforms",
    "application": "a description of an application",
    "policy": "settings of a policy",
}
"""What a file is, by a table that only such files have; of several tables, the first tells."""

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=""")


class Strict(BaseModel):
    """Base of every model read from a file.

    Unknown keys and numbers that are infinite or none are refused, values never change.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Document:
    """A TOML file as read: its path, its text and its parsed content."""

    path: Path
    text: str
    content: Mapping[str, Any]

    def line_of(self, place: Place) -> int | None:
        """The line of a key, or of the nearest table around it; None if neither is found."""
        lines = _locate(self.text)
        for length in range(len(place), 0, -1):
            if place[:length] in lines:
                return lines[place[:length]]
        return None

    def error(self, place: Place, message: str) -> InputError:
        """An InputError that names this file, the line and the key."""
        return InputError(self.told(place, message))

    def told(self, place: Place, message: str) -> str:
        """A message that names this file, the line and the key."""
        line = self.line_of(place)
        where = f"{self.path}:{line}" if line else f"{self.path}"
        key = spell(place)
        return f"{where}: {key}: {message}" if key else f"{where}: {message}"


def read(path: Path) -> Document:
    """Read a TOML file. Raises InputError where it cannot be read or is not TOML."""
    _log.debug("reads %s", path)
    return parse(path, text_of(path))


def text_of(path: Path) -> str:
    """The text of a file that a user wrote. Raises InputError where it cannot be read.

    A mark of the byte order, which editors of other systems put first, is no part of it.
    """
    try:
        return as_text(read_bytes(path), "utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text in UTF-8 (byte {error.start})") from error
    except ValueError as error:  # No path that the system takes: a NUL is in it.
        raise InputError(f"{path}: cannot be read: {error}") from error


def parse(path: Path, text: str) -> Document:
    """Parse the text of a TOML file. Raises InputError where it is not TOML."""
    try:
        found = Document(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: is not valid TOML: {error}") from error
    for place in _with_nul(found.content):
        raise found.error(place, "holds the character NUL, which no name or text may")
    return found


def _with_nul(value: Any, place: Place = ()) -> Iterator[Place]:  # noqa: ANN401 (what was parsed)
    """Places of texts and keys with a NUL in them: no path, name or argument may have one."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if "\0" in key:
                yield place
            yield from _with_nul(inner, (*place, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _with_nul(inner, (*place, at))
    elif isinstance(value, str) and "\0" in value:
        yield place


def another_kind(content: Mapping[str, Any], tables: Collection[str]) -> str | None:
    """What is said of a file of another kind than one with these tables; None if it may be one."""
    wanted = next((kind for table, kind in KINDS.items() if table in tables), None)
    there = [table for table in KINDS if isinstance(content.get(table), dict | list)]
    if wanted is None or not there or set(there) & set(tables):
        return None
    return f"is {KINDS[there[0]]}; {wanted} is expected"


def another_kind_of(text: str, table: str) -> str | None:
    """The same of a text that the native module could not read."""
    try:
        return another_kind(tomllib.loads(text), (table,))
    except tomllib.TOMLDecodeError:
        return None


def validate(model: type[Model], document: Document) -> Model:
    """Turn a document into a model. Raises InputError: a line for each key that is wrong.

    Of a file of another kind no key is right: it is told as that.
    """
    if other := another_kind(document.content, model.model_fields):
        raise InputError(f"{document.path}: {other}")
    return validate_part(model, document.content, document, ())


def check(model: type[Model], content: Mapping[str, Any], where: str) -> Model:
    """Turn what did not come from a file into a model. InputError begins with `where`."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = spell(tuple(first["loc"]))
        raise InputError(f"{where}: {place}: {_explain(model, dict(first))}") from None


def validate_part(
    model: type[Model], content: Mapping[str, Any], document: Document, place: Place
) -> Model:
    """Turn a table that stands at a place of a document into a model. Raises InputError."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # An unknown key is often the cause of a missing one, so it is named first.
        problems = sorted(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
        told: dict[Place, str] = {}
        for problem in problems:
            # What may be of several kinds has an error for each of them: the first one tells.
            key = _given_place(content, problem["loc"])
            message = _explain(model, dict(problem))
            loc = problem["loc"]
            if problem["type"] == "finite_number" and loc[-1] == "float":
                loc = loc[:-1]  # The kind of number that was tried, no key.
            told.setdefault(key, document.told((*place, *loc), message))
        lines = list(told.values())
        if len(lines) > _TOLD_MOST:
            lines[_TOLD_MOST:] = [f"(and {len(lines) - _TOLD_MOST} more)"]
        raise InputError("\n".join(lines)) from None


def _given_place(content: Any, place: Place) -> Place:  # noqa: ANN401 (what was parsed)
    """A problem's place as far as the content goes, and a key that is missing from it."""
    found: Place = ()
    for part in place:
        if not isinstance(content, dict | list):
            return found
        found = (*found, part)
        try:
            content = cast(Any, content)[part]
        except (KeyError, IndexError, TypeError):
            return found
    return found


def spell(place: Place) -> str:
    """A place as a reader would write it: `load[1].pattern`, counted from 1."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            text += f".{part}" if text else part
    return text


def nearest(word: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, and all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    # Names with commas of their own would run into each other.
    shown = [f'"{one}"' for one in known] if any("," in one for one in known) else known
    return f"{hint}allowed: {', '.join(shown)}"


def _explain(model: type[BaseModel], problem: Mapping[str, Any]) -> str:
    """What is wrong and what is allowed, in one sentence."""
    kind, place, given = problem["type"], tuple(problem["loc"]), problem.get("input")
    if kind == "extra_forbidden":
        owner = _model_at(model, place[:-1])
        known = list(owner.model_fields) if owner else []
        return "unknown key; " + nearest(str(place[-1]), known)
    if kind == "missing":
        return "is required"
    if kind in ("list_type", "tuple_type") and isinstance(given, dict):
        name = next((str(part) for part in reversed(place) if isinstance(part, str)), "")
        return f"must be a list of tables: [[{name}]] in place of [{name}]"
    if kind == "string_pattern_mismatch" and (told := allowed(problem["ctx"]["pattern"])):
        return f"{given!r}: {told}"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "finite_number":
        return unusable(cast(float, given), _range_at(model, place))
    if kind == "literal_error" and isinstance(given, str):
        known = re.findall(r"'([^']*)'", problem["ctx"]["expected"])
        return f'"{given}" is not known; ' + nearest(given, known)
    text = in_words(problem["msg"])
    if isinstance(given, dict | list):
        return text
    return f"{str(given).lower() if isinstance(given, bool) else repr(given)}: {text}"


_WORDS = (
    (r"^Input should be (a valid )?", "must be "),
    (r"^Input should", "must"),
    (r"^must be (dictionary|instance|object|mapping).*", "must be a table: { key = ... }"),
    (r"^must be integer\b", "must be a whole number"),
    (r"^must be number\b", "must be a number"),
    (r"^must be string\b", "must be a text"),
    (r"^must be boolean\b", "must be true or false"),
    (r"^must be (list|array|tuple)\b", "must be a list: [...]"),
    (r"^(List|Tuple) should (.*) after validation, not \d+$", r"must \2"),
)
"""What pydantic says, and what the author of a file says."""


def in_words(message: str) -> str:
    """What pydantic says of a value, as a file's author says it: `must be a whole number`."""
    for theirs, ours in _WORDS:
        message = re.sub(theirs, ours, message)
    return message[0].lower() + message[1:]


def _range_at(model: type[BaseModel], place: Place) -> str:
    """The numbers that the key at a place may have."""
    names = [at for at, part in enumerate(place) if isinstance(part, str)]
    for at in reversed(names):
        owner = _model_at(model, place[:at])
        field = owner.model_fields.get(str(place[at])) if owner else None
        if field is not None:
            bounds = _bounds([*field.metadata, field.annotation])
            return " and ".join(bounds) or "a finite number"
    return "a finite number"


_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def _bounds(parts: Sequence[object]) -> list[str]:
    """Bounds in words, out of the parts of an annotation and the parts of these."""
    found: list[str] = []
    for part in parts:
        inner = [*getattr(part, "metadata", ()), *get_args(part)]
        limits = [(name, getattr(part, name, None)) for name in _BOUNDS]
        found += [f"{_BOUNDS[name]} {limit:g}" for name, limit in limits if limit is not None]
        found += _bounds(inner)
    return list(dict.fromkeys(found))


def _model_at(model: type[BaseModel], place: Place) -> type[BaseModel] | None:
    """The model that describes the table at a place."""
    current: type[BaseModel] | None = model
    for part in place:
        if isinstance(part, int) or current is None:
            continue
        field = current.model_fields.get(part)
        current = _inner_model(field.annotation) if field else None
    return current


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner_model(part))), None)


def _locate(text: str) -> dict[Place, int]:
    """Line numbers of tables and keys, found by scanning for headers and `key =`.

    Keys inside inline tables and multi-line arrays are not told apart: their line is that of the
    key that holds them.
    """
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            names: Place = tuple(_keys(header[2]))
            table = _indexed(names[:-1], counts)
            if header[1] == "[[":
                index = counts[names] = counts.get(names, -1) + 1
                lines.setdefault((*table, names[-1]), number)
                table = (*table, names[-1], index)
            else:
                table = (*table, names[-1])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_keys(key[1])), number)
    return lines


def _indexed(names: Place, counts: Mapping[Place, int]) -> Place:
    """A header's names with the index of the newest element of each array of tables."""
    place: Place = ()
    for length in range(1, len(names) + 1):
        place = (*place, names[length - 1])
        if names[:length] in counts:
            place = (*place, counts[names[:length]])
    return place


def _keys(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
