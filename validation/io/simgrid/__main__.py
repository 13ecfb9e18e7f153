"""Check the extended model of I/O approaches by SimGrid, which knows none of its equations.

    python -m validation.io.simgrid [--dumps 20 | --recorded] [--save] [--json]

Simulates runs on two platforms, bound by computing and by writing (`dumps.py`, which says what is
simulated; each in a process of the Python that has SimGrid's module), and compares time and energy
of the run, and of a period between dumps, with what the model says for the same parameters. A
deviation is within what is accepted, explained by a reason that was put in numbers beforehand
(`cases.py`), or OUTSIDE. Ends with 1 where one is outside, with 2 for bad input or without SimGrid.
`--recorded` takes SimGrid's numbers from `studies/io-approaches/simgrid.jsonl`, which `--save`
writes.

The power of a node that waits, phi in the model, is a parameter there; in SimGrid it follows from
what waiting ranks do. Both ends are compared: they sleep (phi is P_idle / P_max) and they poll
(phi is 1). Between them both are straight lines in phi.

The same in both, so not checked: steps that take equally long on all cores; all dumps of one
size; copying that costs a node what waiting does; compression; what waits in a queue of storage.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wattio.errors import InputError, ResultError

from validation.io.simgrid.cases import DUMPS, Case, cases
from validation.io.simgrid.rows import (
    OUTSIDE,
    PATH,
    WITHIN,
    Parameters,
    Row,
    Simulated,
    compare,
    recorded,
    save,
    summary,
)

DIFFERS, BAD_INPUT = 1, 2
ROOT = Path(__file__).parents[3]
"""The folder that holds `validation`, which a process must begin in to find the program."""

PROGRAM = "validation.io.simgrid.dumps"
PYTHON = "/usr/bin/python3"
INSTALL = "Debian's python3-simgrid has it: apt-get install python3-simgrid"
TIMEOUT_S = 600

Simulator = Callable[[Parameters], Simulated]


class NoSimGridError(InputError):
    """SimGrid's module is not there."""


def simulate(run: Parameters, python: str = PYTHON) -> Simulated:
    """One run by SimGrid. Raises NoSimGridError and ResultError."""
    try:
        done = subprocess.run(
            [python, "-m", PROGRAM],
            input=json.dumps(run),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            cwd=ROOT,
        )
    except OSError as error:
        raise NoSimGridError(f"{python} cannot be started: {error.strerror}. {INSTALL}") from error
    except subprocess.TimeoutExpired as error:
        raise ResultError(f"{PROGRAM} took longer than {TIMEOUT_S} s") from error
    if done.returncode != 0:
        if "No module named 'simgrid'" in done.stderr:
            raise NoSimGridError(f"{python} has no module simgrid. {INSTALL}")
        last = (done.stderr.strip().splitlines() or ["no words"])[-1]
        raise ResultError(f"{PROGRAM} ended with {done.returncode}: {last}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def check(
    chosen: Sequence[Case],
    simulator: Simulator = simulate,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> list[Row]:
    """All cases, as many at a time as there are processors. Raises what `simulate` does."""
    rows: list[Row] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            for row in pool.map(lambda case: compare(case, simulator(case.simulated())), chosen):
                rows.append(row)
                told(len(rows), len(chosen))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return rows


def text(rows: Sequence[Row]) -> str:
    """What is printed without `--json`."""
    lines = [
        f"{'':45}{'a run by the model':>21}   SimGrid's deviation in %, of a run and of a period",
        f"{'place':18} {'every':>5} {'approach':8} {'waiting':>9} {'s':>10} {'kJ':>10}"
        f"  {'time':>8} {'energy':>8}  {'time':>8} {'energy':>8}",
    ]
    for row in rows:
        case, found = row.case, row.quantities
        off = {name: f"{100 * one.deviation:+.2f}" for name, one in found.items()}
        mark = "" if row.outcome == WITHIN else f"  {row.outcome}"
        lines.append(
            f"{case.place:18} {case.application.output_every:5} {case.approach!s:8}"
            f" {case.waiting:>9} {found['time_s'].model:10.2f}"
            f" {found['energy_j'].model / 1e3:10.2f}  {off['time_s']:>8} {off['energy_j']:>8}"
            f"  {off['period_s']:>8} {off['period_j']:>8}{mark}"
        )
    lines += [f"- {why}" for why in dict.fromkeys(why for row in rows for why in row.reasons)]
    return "\n".join([*lines, summary(rows)])


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {of} runs" + ("\n" if done == of else ""))
        sys.stderr.flush()


def _rows(given: argparse.Namespace) -> list[Row]:
    chosen = cases(given.dumps)
    if not given.recorded:
        return check(chosen, lambda run: simulate(run, given.python), _progress)
    found = recorded(chosen)
    if len(found) < len(chosen):
        raise ResultError(f"{PATH} has {len(found)} of {len(chosen)} runs; --save writes all")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.io.simgrid",
        description="Check the extended model of I/O approaches by SimGrid.",
    )
    parser.add_argument("--dumps", type=int, default=DUMPS, help=f"of each run ({DUMPS})")
    parser.add_argument("--python", default=PYTHON, help=f"with SimGrid's module ({PYTHON})")
    parser.add_argument("--recorded", action="store_true", help="simulate nothing: take the record")
    parser.add_argument("--save", action="store_true", help=f"write the record ({PATH.name})")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    given = parser.parse_args(arguments)
    if given.dumps < 3:
        parser.error("--dumps: allowed: 3 or more")
    if given.save and given.recorded:
        parser.error("--save: not with --recorded, which simulates nothing")
    try:
        rows = _rows(given)
        if given.save:
            save(rows)
    except (InputError, ResultError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    if given.json:
        found = {"runs": [row.as_dict() for row in rows], "summary": summary(rows)}
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(text(rows) + "\n")
    return DIFFERS if any(row.outcome == OUTSIDE for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
