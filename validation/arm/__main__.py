"""Compute again what Erxleben et al. and the thesis publish of their clusters.

    python -m validation.arm [--json]

Peaks, shares of them, capacity per watt and net idle power follow from what the same documents
give; what was measured is an input. Ends with 1 where a number differs without a reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

from validation.arm import paper, thesis
from validation.common import printed
from validation.common.printed import Checked

PUBLISHED = Path(__file__).with_name("published.toml")


def rows() -> list[Checked]:
    """Every number of both documents, checked."""
    values = printed.read(PUBLISHED)
    return printed.check([*paper.entries(values), *thesis.entries(values)], values)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return printed.main("validation.arm", "the paper and the thesis", rows(), arguments)


if __name__ == "__main__":
    sys.exit(main())
