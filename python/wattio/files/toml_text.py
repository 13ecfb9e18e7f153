"""Writing of plain data as TOML, for `resolved.toml`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"^[A-Za-z0-9_-]+$")


def dump(content: Mapping[str, Any]) -> str:
    """TOML text of tables and arrays of tables; deeper tables become inline ones.

    Keys without a value (None) are left out, as TOML has no null.
    """
    blocks = []
    for name, part in content.items():
        entries = part if isinstance(part, list) else [part]
        opening, closing = ("[[", "]]") if isinstance(part, list) else ("[", "]")
        for entry in entries:
            lines = [f"{opening}{_key(name)}{closing}"]
            lines += [f"{_key(k)} = {_value(v)}" for k, v in entry.items() if v is not None]
            blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def dump_values(content: Mapping[str, Any]) -> str:
    """TOML text of any plain data, one line for each key; tables become inline ones."""
    lines = [f"{_key(k)} = {_value(v)}" for k, v in content.items() if v is not None]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE_KEY.match(name) else json.dumps(name)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
