"""`wattio hpcio calibrate`: a platform file for `wattio advise io`, from measured runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Table

from wattio.cli import EXIT_DONE, EXIT_PROBLEM, output
from wattio.cli.output_path import not_read, writable
from wattio.errors import InputError
from wattio.files.whole import write_whole

if TYPE_CHECKING:
    from wattio.models.calibrate import Calibration
    from wattio.models.runs import Run
    from wattio.models.validate import Score, Validation


Folders = Annotated[tuple[Path, ...], Parameter(consume_multiple=True, negative="")]


def calibrate(
    *,
    results: Folders,
    out: Path,
    held_out: Folders = (),
    idle_power: str | None = None,
    name: str = "this machine",
    seed: int = 1,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Fit the parameters of the I/O model to runs of `wattio hpcio run`, and write platform.toml.

    Runs without output (--output-every 0) on one rank, on more ranks of a node and on more nodes
    determine T_base and the speedups; runs of tp, dc:N and dn:R determine how fast writers are and
    how long they hold up the simulation. What no run determines gets a wide range, marked assumed.
    Exit code 1 if a fit is bad: its points scatter by more than 10 %.

    Parameters
    ----------
    results
        Folders of runs (their --out), folders of such folders, or files with the output of --json.
    out
        The platform file to write.
    held_out
        Runs to predict instead of fitting to them; shows the error of each time and of the ranking.
    idle_power
        Power of all nodes together when idle, such as "60 W".
    name
        Name of the platform.
    seed
        Seed of the fits.
    as_json
        Print one JSON object.
    """
    from wattio.models import calibrate as calibrating
    from wattio.models import runs, validate

    if seed < 0:
        raise InputError(f"--seed {seed}: allowed: 0 or more")
    writable("--out", out)
    not_read("--out", out, [*runs.files(results), *runs.files(held_out)])
    _keep_apart(runs.files(results), runs.files(held_out))
    fitted, kept = runs.read(results), runs.read(held_out)
    _no_run_twice(fitted, kept)
    calibrating.check_alike([*fitted, *kept])
    found = calibrating.calibrate(fitted, name, _watts(idle_power), seed)
    checked = validate.validate(found.file.build(), kept, seed, fitted) if held_out else None
    try:
        write_whole(out, found.file.text())
    except OSError as error:
        raise InputError(f"--out: {out}: cannot be written: {error.strerror}") from None
    if as_json:
        output.print_json(_as_object(found, checked, out))
    else:
        _show(found, checked, out)
    return EXIT_DONE if found.is_good else EXIT_PROBLEM


def _keep_apart(fitted: Iterable[Path], kept: Iterable[Path]) -> None:
    """Raise InputError where a result is fitted to that is to be predicted."""
    both = {path.resolve() for path in fitted} & {path.resolve() for path in kept}
    if both:
        raise InputError(
            f"--held-out: {min(both)} is also among --results: what is fitted cannot be predicted;"
            " give each result to one of them"
        )


def _no_run_twice(fitted: Sequence[Run], kept: Sequence[Run]) -> None:
    """Raise InputError for a run of which there is a copy, which is no repetition."""
    first: dict[Run, Run] = {}
    for run in fitted:
        same = first.setdefault(replace(run, source=""), run)
        if same is not run:
            raise InputError(f"--results: {same.source} and {run.source} are one run: give it once")
    for run in kept:
        same = first.get(replace(run, source=""), run)
        if same is not run:
            raise InputError(
                f"--held-out: {run.source} is the run {same.source} of --results: what is fitted"
                " cannot be predicted"
            )


def _watts(text: str | None) -> float | None:
    from wattio.cli.load_options import quantity

    if text is None:
        return None
    found = quantity("--idle-power", text, "power")
    if found < 0:
        raise InputError(f'--idle-power: "{text}"; allowed is 0 W and more')
    return found


def _as_object(found: Calibration, checked: Validation | None, out: Path) -> dict[str, object]:
    told: dict[str, object] = {
        "platform": str(out),
        "is_good": found.is_good,
        "fits": [
            {
                "what": fit.what,
                "points": fit.points,
                "scatter": fit.scatter,
                "is_good": fit.is_good,
                "is_estimate": fit.is_estimate,
                "verdict": fit.verdict,
            }
            for fit in found.fits
        ],
        "parameters": [
            {
                "name": one.name,
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "origin": one.origin,
                "how": one.how,
            }
            for one in found.file.build().parameters
        ],
    }
    return told if checked is None else told | {"held_out": checked.as_object()}


def _show(found: Calibration, checked: Validation | None, out: Path) -> None:
    console = output.console()
    table = Table(title="fitted", title_justify="left", box=None)
    for heading in ("parameter", "value", "95 %, or range", "origin", "how"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for one in found.file.build().parameters:
        ends = f"{output.number(one.low)} to {output.number(one.high)}"
        table.add_row(one.name, output.number(one.value), ends, one.origin, one.how)
    console.print(table)
    for fit in found.fits:
        console.print(str(fit), markup=False)
    if checked is not None:
        _show_held_out(checked)
    console.print(f"platform file: {out}", markup=False)


def _show_methods(found: Sequence[Score]) -> None:
    """The model beside what it must beat."""
    from wattio.models import validate

    if not found:
        return
    console = output.console()
    table = Table(title="held out, against baselines", title_justify="left", box=None)
    for heading in ("by", "off, median", "worst", "pairs", "firsts", "regret, mean", "worst"):
        table.add_column(heading, justify="left" if heading == "by" else "right")
    for one in found:
        table.add_row(
            one.method,
            output.share(one.error_median),
            output.share(one.error_worst),
            f"{one.pairs[0]} of {one.pairs[1]}",
            f"{one.firsts[0]} of {one.firsts[1]}",
            output.share(one.regret_mean),
            output.share(one.regret_worst),
        )
    console.print(table)
    console.print(validate.told(found))


def _show_held_out(checked: Validation) -> None:
    from wattio.models import validate

    console = output.console()
    table = Table(title="held out", title_justify="left", box=None)
    for heading in ("approach", "cells", "output every", "measured, s", "predicted, s", "", "off"):
        table.add_column(heading, justify="left" if heading == "approach" else "right")
    for one in checked.compared:
        table.add_row(
            str(one.run.approach),
            f"{one.run.cells:,}",
            str(one.run.output_every),
            output.number(one.measured_s),
            output.number(one.time_s.estimate),
            f"({output.number(one.time_s.low)} to {output.number(one.time_s.high)})",
            f"{100 * one.deviation:+.1f} %",
        )
    console.print(table)
    if checked.median_error is not None:
        inside = sum(one.is_inside for one in checked.compared)
        console.print(
            f"times: off by {output.share(checked.median_error)} in the median, {inside} of"
            f" {len(checked.compared)} within their intervals"
        )
        target_low, target_high = validate.COVERAGE
        console.print(
            f"coverage of the 95 % intervals: {output.share(inside / len(checked.compared))}"
            f" (aimed at: {100 * target_low:.0f} to {100 * target_high:.0f} %)"
        )
    _show_methods(validate.scores([checked]))
    for rank in checked.rankings:
        right, pairs = rank.pairs_right
        measured = ", ".join(str(one) for one in rank.measured)
        predicted = ", ".join(str(one) for one in rank.predicted)
        console.print(
            f"fastest first, {rank.cells:,} cells, output every {rank.output_every}: measured"
            f" {measured}; predicted {predicted} ({right} of {pairs} pairs right, the predicted"
            f" first takes {output.share(rank.regret)} longer than the best)",
            markup=False,
        )
    for run, why in checked.left_out:
        console.print(f"not predicted: {run.source}: {why}", markup=False)
