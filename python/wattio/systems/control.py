"""Asking a program of wattio how it stands, over its control socket: a JSON object a line.

The same as `crates/service/src/client.rs`: one request, one answer, `{"answer": "status", "status":
{...}}`. What the status holds is the program's own (for wattio-target `crates/target/src/shown`).
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from wattio.errors import SystemFailed

SILENCE_MAX_S = 15.0
"""How long the other side may be silent: longer than its loop may take for an answer."""

ANSWER_BYTES_MAX = 4 << 20

_INSPECT = b'{"op":"inspect"}\n'
"""How it stands, with what reactors and volumes say of themselves now."""


def inspect(path: Path) -> dict[str, Any]:
    """The status of who listens on a socket. Raises SystemFailed where nobody does, or nonsense."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(SILENCE_MAX_S)
            connection.connect(str(path))
            connection.sendall(_INSPECT)
            with connection.makefile("rb") as answers:
                line = answers.readline(ANSWER_BYTES_MAX)
    except OSError as error:
        raise SystemFailed(f"{path}: no status: {error.strerror or error}") from error
    return status_of(line, str(path))


def status_of(line: bytes, where: str) -> dict[str, Any]:
    """The status in a line of answer; `where` stands in the message. Raises SystemFailed."""
    if not line.endswith(b"\n"):
        raise SystemFailed(f"{where}: the answer has no line end")
    try:
        # Infinity and the like are no JSON, and nothing that a number may be here.
        answer = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise SystemFailed(f"{where}: the answer is not JSON: {error}") from error
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict):
        raise SystemFailed(f"{where}: the answer is not a status: {line[:200]!r}")
    return status


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number")
