"""What a caller of wattio's functions gave: of the right type, or told by its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from wattio.errors import InputError


def number(name: str, value: object) -> float:
    """A number of Python's or of NumPy's. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name}={value!r}: must be a number")
    return float(value)


def whole(name: str, value: object) -> int:
    """A whole number of Python's or of NumPy's. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name}={value!r}: must be a whole number")
    return int(value)


def text(name: str, value: object) -> str:
    """A text. Raises InputError."""
    if not isinstance(value, str):
        raise InputError(f"{name}={value!r}: must be a text")
    return value


def path(name: str, value: object) -> str:
    """A path or the name of something built in, as text. Raises InputError."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str):
        raise InputError(f"{name}={value!r}: must be a text or a path")
    return found


def flag(name: str, value: object) -> bool:
    """True or False. Raises InputError."""
    if str(value) not in ("True", "False") or isinstance(value, str):  # NumPy's have another type.
        raise InputError(f"{name}={value!r}: must be True or False")
    return bool(value)


def table(name: str, value: object) -> dict[str, Any]:
    """A table, with numbers of NumPy's as Python's. Raises InputError."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name}={value!r}: must be a table, such as a dict")
    return {str(key): _plain(own) for key, own in value.items()}


def listed(name: str, value: object) -> Sequence[Any]:
    """What stands in a list. Raises InputError."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"{name}={value!r}: must be a list")
    return list(value)


def _plain(value: Any) -> Any:  # noqa: ANN401 (whatever a table holds)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else value
