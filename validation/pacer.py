"""Compare a result of `studies/pacer` with the numbers that the PACER document publishes.

    uv run python validation/pacer.py results/pacer/<folder> [--json]

Writes `report/published.html` into the result folder, with the table as CSV and Markdown and each
figure as SVG and CSV. Ends with 1 where a check that must hold does not, with 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pacer_checks
import pacer_figures
import pacer_floor
import pacer_idle
import pacer_inputs
import pacer_page
import pacer_results
import pacer_tail
import published
from pacer_data import Evaluation
from pacer_entries import Evidence, compare
from pacer_page import Found
from wattio.errors import InputError, ResultError
from wattio.report.drawing import Table

CHECK_FAILED, BAD_INPUT = 1, 2


def evaluate(path: Path) -> tuple[Path, Found]:
    """Compare a result folder; write the page. Raises ResultError, InputError and OSError."""
    study = Evaluation(path)
    seen = Evidence(study, pacer_idle.savings_percent(study.server_name))
    entries = [*pacer_inputs.entries(), *pacer_results.entries()]
    compared = compare(entries, published.read("pacer"), seen)
    checks = pacer_checks.run(study, compared)
    found = Found(compared, pacer_tail.claims(study), pacer_floor.failures(study), checks)
    return pacer_page.make(study, found, pacer_figures.of_study(study)), found


def as_object(page: Path, found: Found) -> dict[str, Any]:
    """What `--json` prints: the page's path, every reading, the tail, the floor, every check."""
    return {
        "page": str(page),
        "readings": _objects(pacer_page.table(found.compared)),
        "tail": _objects(pacer_page.tail_table(found.tails)),
        "floor_missed": _objects(pacer_page.floor_table(found.floor)),
        "checks": [
            {"claim": c.claim, "outcome": c.outcome, "detail": c.detail} for c in found.checks
        ],
    }


def _objects(rows: Table) -> list[dict[str, Any]]:
    header, *values = rows
    return [dict(zip(header, row, strict=True)) for row in values]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python validation/pacer.py",
        description="Compare a result of studies/pacer with what the PACER document publishes.",
    )
    parser.add_argument("result", type=Path, help="result folder of studies/pacer")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    given = parser.parse_args(arguments)
    try:
        page, found = evaluate(given.result)
    except (InputError, ResultError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    if given.json:
        text = json.dumps(as_object(page, found), ensure_ascii=False)
    else:
        lines = [
            f"{check.outcome:8} {check.claim}\n         {check.detail}" for check in found.checks
        ]
        text = "\n".join([*lines, f"page: {page}"])
    sys.stdout.write(text + "\n")
    return CHECK_FAILED if any(check.failed for check in found.checks) else 0


if __name__ == "__main__":
    sys.exit(main())
