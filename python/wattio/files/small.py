"""Small files that may not be there, and where what can be made again is kept."""

from __future__ import annotations

import os
from pathlib import Path


def text_if_any(path: Path) -> str | None:
    """What a small file says, as in /sys; None where it is absent or closed to us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def text_or_empty(path: Path) -> str:
    """The same; the empty text where it is absent or closed to us."""
    return text_if_any(path) or ""


def cache_folder() -> Path:
    """The user's folder for what can be made again. RuntimeError where nobody knows their home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wattio"
