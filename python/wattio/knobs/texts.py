"""Small files of a machine, by patterns: settings and counters, of this machine or of another."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Texts = Callable[[Sequence[str]], Mapping[str, str]]
"""Given patterns of paths below the root, as in "proc/[0-9]*/stat": the text of each such file, by
its path below the root. What cannot be read, or has gone meanwhile, is left out."""


def here(root: Path = Path("/")) -> Texts:
    """Files of this machine, or of a made-up one below a folder."""

    def read(patterns: Sequence[str]) -> Mapping[str, str]:
        found = {}
        for pattern in patterns:
            for path in root.glob(pattern):
                try:
                    found[str(path.relative_to(root))] = os.fsdecode(path.read_bytes())
                except OSError:
                    continue
        return found

    return read
