"""Compute again what the document on HDD and SSD under frequency scaling publishes.

    python -m validation.dvfs [--json]

Its rates, powers and energies are inputs; its efficiencies and ratios follow from them. Ends with 1
where a number differs without a reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

from validation.common import printed
from validation.common.printed import Checked
from validation.dvfs.entries import entries

PUBLISHED = Path(__file__).with_name("published.toml")


def rows() -> list[Checked]:
    """Every number of the document, checked."""
    values = printed.read(PUBLISHED)
    return printed.check(entries(values), values)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return printed.main("validation.dvfs", "the document's tables", rows(), arguments)


if __name__ == "__main__":
    sys.exit(main())
