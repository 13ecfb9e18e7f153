"""`make bench`: how fast wattio is, as ratios to peers that run beside it.

Prints `name ratio peer ours` lines, or one JSON object with --json. Exit code 1 where a goal is
missed or a benchmark's results are wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence

import dumping
import fleet
import governing
import importing
import io_library
import mm96
import nodes
import plant
import report_power
import sampling
import serving
import vscsi
from timing import BenchError, Line

BENCHMARKS: dict[str, Callable[[], Iterator[Line]]] = {
    "daemon": governing.lines,
    "dumps": dumping.lines,
    "fleet": fleet.lines,
    "import": importing.lines,
    "io": io_library.lines,
    "mm96": mm96.lines,
    "nodes": nodes.lines,
    "plant": plant.lines,
    "recorder": sampling.lines,
    "report": report_power.lines,
    "serving": serving.lines,
    "vscsi": vscsi.lines,
}
METHOD = (
    "Per second of processor time on one core; medians of rounds in which peer and ours take turns"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="benches/run.py", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f'unknown benchmark "{name}"; allowed are {", ".join(BENCHMARKS)}')
    done: list[Line] = []
    try:
        for name in options.names or BENCHMARKS:
            for line in BENCHMARKS[name]():
                done.append(line)
                if not options.json:
                    show(line, first=len(done) == 1)
    except BenchError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    missed = [line.name for line in done if not line.reached]
    if options.json:
        result = {"method": METHOD, "lines": [line.as_json() for line in done], "missed": missed}
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        sys.stdout.write(f"\n{METHOD};\nin brackets the least and the most of them.\n")
        sys.stdout.writelines(f"{line.name}: {line.note}\n" for line in done)
    if missed:
        sys.stderr.write(f"bench: goal missed: {', '.join(missed)}\n")
    return 1 if missed else 0


def show(line: Line, *, first: bool) -> None:
    """Print a line, and the head of the table before the first."""
    if first:
        sys.stdout.write(f"{'name':<12} {'ratio':>7}  {'peer':<60} {'ours':<40} goal\n")
    peer = f"{line.peer_name} {amount(line.peer.median, line.unit)} {spread(line, ours=False)}"
    ours = f"{amount(line.ours.median, line.unit)} {spread(line, ours=True)}"
    ratio = f"{line.ratio:.3g}x"
    sys.stdout.write(f"{line.name:<12} {ratio:>7}  {peer:<60} {ours:<40} {verdict(line)}\n")
    sys.stdout.flush()


def amount(per_s: float, unit: str) -> str:
    """A rate as people read it."""
    return f"{scaled(per_s)} {unit}/s"


def scaled(value: float) -> str:
    """A number with three digits, in thousands or millions."""
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {letter}"
    return f"{value:.3g}"


def spread(line: Line, *, ours: bool) -> str:
    """The least and the most of the rounds."""
    rates = (line.ours if ours else line.peer).cpu_per_s
    return f"[{scaled(min(rates))}, {scaled(max(rates))}]"


def verdict(line: Line) -> str:
    """What was to be reached, and whether it was."""
    goal = line.goal
    if goal is None:
        return "-"
    unit = "x" if goal.of == "ratio" else f" {line.unit}/s"

    def told(value: float) -> str:
        return (f"{value:g}" if goal.of == "ratio" else scaled(value)) + unit

    text = f"{told(goal.least)} {'reached' if line.reached else 'MISSED'}"
    if goal.hoped is not None:
        text += f", {told(goal.hoped)} {'reached' if line.hope_reached else 'not reached'}"
    return text


if __name__ == "__main__":
    sys.exit(main())
