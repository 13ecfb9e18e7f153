"""Compare a result of `studies/pacer` with the numbers that the PACER document publishes.

    python -m validation.pacer results/pacer/<folder> [--json]

Writes `report/published.html` into the result folder, with the table as CSV and Markdown and each
figure as SVG and CSV. Ends with 1 where a check that must hold does not, with 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from wattio.errors import InputError, ResultError

from validation.common import pages, published
from validation.pacer import checks, figures, floor, idle, inputs, page, results, tables, tail
from validation.pacer.data import Evaluation
from validation.pacer.entries import Evidence, compare
from validation.pacer.page import Found

PUBLISHED = Path(__file__).with_name("published.toml")
CHECK_FAILED, BAD_INPUT = 1, 2


def evaluate(path: Path) -> tuple[Path, Found]:
    """Compare a result folder; write the page. Raises ResultError, InputError and OSError."""
    study = Evaluation(path)
    seen = Evidence(study, idle.savings_percent(study.server_name))
    compared = compare([*inputs.entries(), *results.entries()], published.read(PUBLISHED), seen)
    judged = checks.run(study, compared)
    found = Found(compared, tail.claims(study), floor.failures(study), judged)
    return page.make(study, found, figures.of_study(study)), found


def as_object(made: Path, found: Found) -> dict[str, Any]:
    """What `--json` prints: the page's path, every reading, the tail, the floor, every check."""
    return {
        "page": str(made),
        "readings": pages.records(tables.table(found.compared)),
        "tail": pages.records(tables.tail_table(found.tails)),
        "floor_missed": pages.records(tables.floor_table(found.floor)),
        "checks": [
            {"claim": c.claim, "outcome": c.outcome, "detail": c.detail} for c in found.checks
        ],
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.pacer",
        description="Compare a result of studies/pacer with what the PACER document publishes.",
    )
    parser.add_argument("result", type=Path, help="result folder of studies/pacer")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    given = parser.parse_args(arguments)
    try:
        made, found = evaluate(given.result)
    except (InputError, ResultError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    if given.json:
        text = json.dumps(as_object(made, found), ensure_ascii=False)
    else:
        lines = [
            f"{check.outcome:8} {check.claim}\n         {check.detail}" for check in found.checks
        ]
        text = "\n".join([*lines, f"page: {made}"])
    sys.stdout.write(text + "\n")
    return CHECK_FAILED if any(check.failed for check in found.checks) else 0


if __name__ == "__main__":
    sys.exit(main())
