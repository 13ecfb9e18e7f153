"""What a load's trace holds, read from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wattio import _core
from wattio.errors import InputError

NOTHING = "the trace holds no requests with data"
"""What is said of a trace of a header alone, or of flushes alone: nothing can be replayed."""


def of_load(path: Path, format: str | None = None, columns: str | None = None) -> dict[str, Any]:
    """What `wattio._core.trace_info` tells of a trace that is to be replayed.

    Raises InputError where it is damaged, of no known format or holds nothing to replay.
    """
    found: dict[str, Any] = json.loads(_core.trace_info(str(path), None, format, columns))
    if not found["ios"]:
        raise InputError(f"{path}: {NOTHING}")
    return found
