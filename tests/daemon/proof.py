"""What the proofs under load share: how long, which faults, and how long each took."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from daemon.records import Accounted

SPAN_S = float(os.environ.get("WATTIO_PROOF_S", "60"))
SEED = int(os.environ.get("WATTIO_SEED", "1"))


@dataclass
class Took:
    """How long a fault took each time: until full speed, and until it was over."""

    full_s: list[float] = field(default_factory=list)
    back_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        parts = {"full": self.full_s, "back": self.back_s}
        said = [f"{name} {max(each):.1f} s" for name, each in parts.items() if each]
        return f"{len(self.back_s)} ({', '.join(said)} at most)"


def tell(
    capsys: pytest.CaptureFixture[str],
    what: str,
    took: defaultdict[str, Took],
    *accounted: Accounted,
) -> None:
    """Show it all, in a run of tests that shows nothing else."""
    lines = [f"{what}, seed {SEED}", *(f"{name} {each}" for name, each in took.items())]
    with capsys.disabled():
        sys.stdout.write("\n  ".join(["", *lines, *map(str, accounted)]) + "\n")
