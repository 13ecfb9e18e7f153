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
import pacer_idle
import pacer_inputs
import pacer_page
import pacer_results
import published
from pacer_checks import Check
from pacer_data import Evaluation
from pacer_entries import Compared, Evidence, compare
from wattio.errors import InputError, ResultError

CHECK_FAILED, BAD_INPUT = 1, 2


def evaluate(path: Path) -> tuple[Path, list[Compared], list[Check]]:
    """Compare a result folder; write the page. Raises ResultError, InputError and OSError."""
    study = Evaluation(path)
    seen = Evidence(study, pacer_idle.savings_percent(study.server_name))
    entries = [*pacer_inputs.entries(), *pacer_results.entries()]
    compared = compare(entries, published.read("pacer"), seen)
    checks = pacer_checks.run(study, compared)
    slots = pacer_figures.of_study(study)
    return pacer_page.make(study, compared, checks, slots), compared, checks


def as_object(page: Path, compared: list[Compared], checks: list[Check]) -> dict[str, Any]:
    """What `--json` prints: the page's path, every reading, every check."""
    header, *rows = pacer_page.table(compared)
    return {
        "page": str(page),
        "readings": [dict(zip(header, row, strict=True)) for row in rows],
        "checks": [{"claim": c.claim, "outcome": c.outcome, "detail": c.detail} for c in checks],
    }


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
        page, compared, checks = evaluate(given.result)
    except (InputError, ResultError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    if given.json:
        text = json.dumps(as_object(page, compared, checks), ensure_ascii=False)
    else:
        lines = [f"{check.outcome:8} {check.claim}\n         {check.detail}" for check in checks]
        text = "\n".join([*lines, f"page: {page}"])
    sys.stdout.write(text + "\n")
    return CHECK_FAILED if any(check.failed for check in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
