"""Check the document on Damaris and CM1 against itself and against both models of I/O approaches.

    python -m validation.io [--out FOLDER] [--json]

Computes Tables 1 to 3 from what else is published, fits the document's model and the extended one
to Table 2, leaves one approach out at a time, and writes `io-approaches.html` with figures as SVG
and CSV. Ends with 1 where a number differs without a reason, with 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from wattio.errors import InputError, ResultError
from wattio.models import validate
from wattio.models.validate import Score

from validation.common import printed
from validation.io import own, page

BAD_INPUT = 2
OUT = Path("results") / "io-approaches"


def text(study: page.Study) -> str:
    """What is printed without `--json`."""
    lines = [printed.table(study.rows), ""]
    lines.append(
        f"{'Table 2, kJ':12} {'published':>10} {'document':>10} {'extended':>10}  left out"
    )
    for row in study.table_2:
        document = "-" if row.document_kj is None else f"{row.document_kj:.0f}"
        left = row.left_out.predicted_kj
        inside = "" if row.left_out.is_inside(left) else "  OUTSIDE"
        lines.append(
            f"{row.title:12} {row.published_kj:10.0f} {document:>10}"
            f" {row.extended_kj.estimate:10.0f}"
            f"  {left.estimate:.0f} ({left.low:.0f} to {left.high:.0f}){inside}"
        )
    lines.append(
        f"E(DN(15:1)) / E(DN(7:1)): published {study.needed:.3f}, by the document's model at most"
        f" {study.bound:.3f}; its mean error is at least {100 * study.least_error:.1f} %,"
        f" {100 * study.fit.mean_error:.1f} % at best with Amdahl's forms in the ranges assumed;"
        f" that of the extended model is {100 * study.nearest_mean_error:.1f} % by its best draw"
        f" and {100 * study.median_mean_error:.1f} % by the medians of its draws"
    )
    for one in study.claims:
        share = "" if one.share is None else f" in {100 * one.share:.1f} % of draws"
        lines.append(f"{one.outcome:13} figure {one.figure}: {one.text}{share}")
    if study.own:
        for by in own.HeldOut:
            if found := own.scores(study.own, by):
                lines += _held_out(by, found)
    lines.append(f"coverage of the 95 % intervals over all held-out runs: {study.coverage_said}")
    return "\n".join(lines)


def _held_out(name: str, scores: Sequence[Score]) -> list[str]:
    """The model beside its baselines."""
    head = ("median", "worst", "pairs", "firsts", "regret", "worst")
    lines = [f"held out, {name:28} " + "".join(f"{word:>10}" for word in head)]
    for one in scores:
        shares = (one.error_median, one.error_worst, one.regret_mean, one.regret_worst)
        first, second, third, fourth = (f"{100 * share:.1f} %" for share in shares)
        pairs, firsts = (f"{right}/{of}" for right, of in (one.pairs, one.firsts))
        cells = (first, second, pairs, firsts, third, fourth)
        lines.append(f"  {one.method:36} " + "".join(f"{cell:>10}" for cell in cells))
    return [*lines, validate.told(scores)]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.io",
        description="Check the document on Damaris and CM1 against itself and two models.",
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of the page ({OUT})")
    parser.add_argument("--draws", type=int, default=page.DRAWS, help="from the ranges")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    given = parser.parse_args(arguments)
    if given.draws < 100:
        parser.error("--draws: allowed: 100 or more")
    try:
        study = page.evaluate(given.draws)
        made = page.make(study, given.out)
    except (InputError, ResultError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    if given.json:
        sys.stdout.write(json.dumps(page.as_object(study) | {"page": str(made)}) + "\n")
    else:
        sys.stdout.write(f"{text(study)}\npage: {made}\n")
    return printed.judge(study.rows)


if __name__ == "__main__":
    sys.exit(main())
