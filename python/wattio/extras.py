"""The optional parts of wattio, and what is said where one is missing."""

from __future__ import annotations

from typing import Literal

Extra = Literal["hpc", "meters", "cluster", "tables"]
"""The extras of the package; `pyproject.toml` says what each brings."""


def needed(extra: Extra) -> str:
    """The end of a message about a missing library: which extra brings it, and how to get that."""
    return (
        f"needs the extra {extra}: install it from where wattio came from, as in"
        f" pip install 'FILE.whl[{extra}]', or uv sync --extra {extra} in a source tree"
    )
