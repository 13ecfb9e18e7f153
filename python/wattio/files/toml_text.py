"""Plain data as TOML, for `resolved.toml` and the files that commands write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w


def dump(content: Mapping[str, Any]) -> str:
    """TOML text. Keys without a value (None) are left out, as TOML has no null."""
    return tomli_w.dumps(_valued(content))


def _valued(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value(value) for key, value in content.items() if value is not None}


def _value(value: object) -> object:
    if isinstance(value, Mapping):
        return _valued(value)
    return [_value(item) for item in value] if isinstance(value, list | tuple) else value
