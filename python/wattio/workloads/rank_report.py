"""The one line of JSON in which ranks report, among whatever else a launch prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from wattio.errors import ResultError

Report = TypeVar("Report", bound=BaseModel)
Read = TypeVar("Read")


def lines_of(key: str, output: str) -> list[str]:
    """Lines that begin an object with a key."""
    return [line for line in output.splitlines() if line.startswith(f'{{"{key}"')]


def parse(model: type[Report], key: str, output: str, of: str) -> Report:
    """The only report in an output; other lines are passed over. Raises ResultError."""
    lines = lines_of(key, output)
    if len(lines) != 1:
        raise ResultError(f"holds {len(lines)} reports of {of} instead of one")
    try:
        return model.model_validate_json(lines[0])
    except ValidationError as error:
        first = error.errors()[0]
        raise ResultError(
            f"the report of {of} is damaged: {first['loc']}: {first['msg']}"
        ) from None


def read(path: Path, parse: Callable[[str], Read]) -> Read:
    """What a file says. Raises ResultError that names it."""
    try:
        return parse(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    except ResultError as error:
        raise ResultError(f"{path}: {error}") from None
