"""Compute again what the document on HDD and SSD under frequency scaling publishes.

    python -m validation.dvfs [--out FOLDER] [--json]

Its rates, powers and energies are inputs; its efficiencies and ratios follow from them. With
`--out`, writes `dvfs-fio.html` and a CSV file. Ends with 1 where a number differs without a reason,
with 2 where nothing can be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from validation.common import numbers, printed
from validation.common.numbers import About, Document
from validation.common.printed import Checked
from validation.dvfs.entries import entries

PUBLISHED = Path(__file__).with_name("published.toml")
DOCUMENT = Document(
    "dvfs_fio",
    "HDD and SSD under processor frequency scaling",
    {
        "method": "Method (section 3)",
        "machine": "Machine and drives (section 3)",
        "read": "Reading (sections 4 and 5)",
        "write": "Writing (sections 4 and 5)",
        "note": "What is printed as MB/J",
    },
)
ABOUT = About(
    "dvfs-fio",
    "HDD and SSD under frequency scaling: published against ours",
    "the document's text and tables",
    (DOCUMENT,),
)


def rows() -> list[Checked]:
    """Every number of the document, checked."""
    values = printed.read(PUBLISHED)
    return printed.check(entries(values), values)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return numbers.main("validation.dvfs", ABOUT, rows(), arguments)


if __name__ == "__main__":
    sys.exit(main())
