"""Trees of directories."""

from __future__ import annotations

from pathlib import Path


def tree(base: Path, branch: int, depth: int) -> list[Path]:
    """The directories of a tree, each after the one it lies in; with depth 0 the base alone."""
    level = [base]
    found = [base]
    for _ in range(depth):
        level = [parent / f"tree.{number}" for parent in level for number in range(branch)]
        found += level
    return found
