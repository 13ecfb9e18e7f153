"""`wattio advise`: which I/O approach a simulation should take, what a cluster needs next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from rich.table import Table

from wattio import shipped
from wattio.cli import advise_cluster as cluster
from wattio.cli import output
from wattio.errors import InputError

if TYPE_CHECKING:
    from wattio.analysis.statistics import Interval
    from wattio.models.advice import Advice
    from wattio.models.observed import Agreement, Known
    from wattio.models.scenario import Application

_QUANTITIES = {
    "energy_j": ("energy", "kJ", 1e-3),
    "time_s": ("time", "s", 1.0),
    "waiting_share": ("waiting", "% of the time", 100.0),
}
"""What may be known of a run: in words, the unit that is printed, and how many of it one is."""

app = App(
    name="advise",
    help="Advice from models, with intervals: `io` on how a simulation should write its output,"
    " `cluster` on what to buy for a storage cluster.",
    help_format="markdown",
    help_epilogue="""docs/advise.md describes the models, and how to describe a platform.

**Examples**

```
wattio advise io --application io-approaches/cm1.toml \\
    --platform io-approaches/platforms/nancy.toml
wattio advise cluster arm-cluster/thesis-peak.toml --rate "2 GiB/s"
```""",
)
app.command(cluster.cluster, help_epilogue=cluster.EXAMPLES)


@app.command(
    help_epilogue="""**Examples**

```
wattio advise io --application io-approaches/cm1.toml \\
    --platform io-approaches/platforms/nancy.toml
wattio advise io --application app.toml --platform platform.toml \\
    --objective edp:2 --json
wattio advise io --application app.toml --platform platform.toml \\
    --approaches tp,dc:1,dn:3
```

`wattio hpcio calibrate` makes a platform file from measured runs."""
)
def io(
    *,
    application: Path,
    platform: Path,
    objective: str = "energy",
    approaches: str | None = None,
    output_every: int | None = None,
    draws: int = 20_000,
    seed: int = 1,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Rank I/O approaches by energy or time, from descriptions of application and platform.

    Every number of the platform has an interval. Values are drawn from these intervals many times,
    so each result has an interval, too; for each approach, the share of draws in which it ranks
    first is shown.

    Parameters
    ----------
    application
        TOML file: number of steps, how often they write a dump, and its size.
    platform
        TOML file: nodes, power, storage, and how fast the application computes without I/O.
    objective
        What to minimise: energy, time or edp:N (energy times time to the power of N).
    approaches
        Approaches to rank, separated by commas: tp (every rank writes), dc:N (N cores of each node
        write), dn:R (one node writes for R that compute). Default: tp, dc:1, dc:2, dn:15, dn:7;
        with fewer nodes, one writes for all others.
    output_every
        Steps between dumps; default: the file's.
    draws
        Number of draws, 1000 to 1000000.
    seed
        Seed of the draws.
    as_json
        Print one JSON object.
    """
    from dataclasses import replace

    from wattio.models import advice, approach, files

    aim = advice.parse_objective(objective)
    chosen = None
    if approaches is not None:
        chosen = [approach.parse(part.strip()) for part in approaches.split(",")]
    if not 1000 <= draws <= 1_000_000 or seed < 0:
        raise InputError(
            f"--draws {draws}, --seed {seed}: allowed: 1000 to 1000000 draws, a seed from 0"
        )
    file = files.read_platform(shipped.located(platform))
    run = files.read_application(shipped.located(application))
    machine = file.build()
    if output_every is not None:
        if not 1 <= output_every <= run.iterations:
            raise InputError(f"--output-every {output_every}: allowed: 1 to {run.iterations}")
        run = replace(run, output_every=output_every)
    known = file.observed_runs()
    with output.busy("drawing from the intervals"):
        found = advice.advise(machine, run, aim, chosen, draws, seed, known)
    if as_json:
        output.print_json(as_object(found, machine.name, run))
    else:
        _show(found, machine.name, run)
    return 0


def as_object(advice: Advice, platform: str, application: Application) -> dict[str, Any]:
    """What `--json` prints: estimates are medians, low and high a 95 % interval."""
    from dataclasses import asdict

    from wattio.models import approach

    first = advice.first.prediction
    buffer = approach.buffer_bytes(first.resources, application.output_bytes)
    return {
        "platform": platform,
        "application": application.name,
        "objective": advice.objective.name,
        "draws": advice.draws,
        "seed": advice.seed,
        "observed": _agreement(advice.agreement),
        "straight_line_possible": [str(one) for one in advice.lined],
        "sampling": None if advice.sampling is None else asdict(advice.sampling),
        "approaches": [
            {
                "approach": str(one.prediction.approach),
                "rank": rank,
                "first_share": one.first_share,
                "time_s": _ends(one.time_s),
                "blocked_s": _ends(one.blocked_s),
                "power_w_mean": _ends(one.power_w_mean),
                "energy_j": _ends(one.energy_j),
                "energy_ratio_to_first": _ends(one.energy_ratio),
            }
            for rank, one in enumerate(advice.ranked, start=1)
        ],
        "energy_untold_from_first": [str(one.prediction.approach) for one in advice.untold],
        "measure_next": [
            {
                "parameter": worth.parameter.name,
                "origin": worth.parameter.origin,
                "first_share_if_known": worth.first_share,
                "gain": worth.gain,
            }
            for worth in advice.worth
        ],
        "inputs": {origin: list(names) for origin, names in advice.inputs.items()},
        "configuration": {
            "damaris_xml": approach.damaris_xml(first.approach, first.resources.nodes, buffer),
            "hpcio_toml": approach.hpcio_toml(first.approach, buffer),
        },
    }


def _agreement(agreement: Agreement) -> dict[str, Any]:
    return {
        "runs": agreement.runs,
        "inside_95_percent": agreement.inside,
        "outside": [
            {
                "approach": str(one.run.approach),
                "output_every": one.run.application.output_every,
                "known": {one.quantity: one.value},
                "predicted": _ends(one.predicted),
            }
            for one in agreement.outside
        ],
        "reversed": [
            {
                "of": less.quantity,
                "less": str(less.run.approach),
                "more": str(more.run.approach),
                "output_every": less.run.application.output_every,
            }
            for less, more in agreement.reversed
        ],
    }


def _ends(value: Interval) -> dict[str, float]:
    return {"estimate": value.estimate, "low": value.low, "high": value.high}


def _show(advice: Advice, platform: str, application: Application) -> None:
    console = output.console()
    title = f"{application.name} on {platform}, by {advice.objective.name}"
    table = Table(title=f"{title}: predicted, not measured", title_justify="left", box=None)
    table.add_column("approach")
    for heading in ("first in", "energy, kJ", "", "of the first", "time, s", "", "power, W", ""):
        table.add_column(heading, justify="right")
    for one in advice.ranked:
        table.add_row(
            str(one.prediction.approach),
            output.share(one.first_share),
            *_cells(one.energy_j, 1e-3),
            output.ratio(one.energy_ratio.estimate),
            *_cells(one.time_s),
            *_cells(one.power_w_mean),
        )
    console.print(table)
    first = advice.first
    console.print(
        f"\n{first.prediction.approach} is the best in {output.share(first.first_share)} of"
        f" {advice.draws} draws from the intervals of the inputs."
    )
    if advice.untold:
        others = ", ".join(str(one.prediction.approach) for one in advice.untold)
        console.print(
            f"By energy the model cannot tell {first.prediction.approach} and {others} apart: 95 %"
            " intervals of their ratios to it, draw by draw, hold 1.",
            markup=False,
        )
    energies = [one.energy_j.estimate for one in advice.ranked]
    if energies != sorted(energies):
        console.print(
            "Approaches are ranked by how often each is the best within one draw; the columns are"
            " medians over all draws, whose order may differ where none is clearly the best."
        )
    for origin, names in advice.inputs.items():
        if names:
            console.print(f"{origin}: {', '.join(names)}", markup=False)
    if advice.agreement.runs:
        _show_agreement(advice.agreement)
    if guide := _line_told(advice):
        console.print(guide, markup=False)
    if advice.sampling is not None:
        console.print(f"Drawn by {advice.sampling}.")
    _show_worth(advice)
    _show_configuration(advice, application)


def _show_agreement(agreement: Agreement) -> None:
    console = output.console()
    console.print(
        f"Of {agreement.runs} known runs of the platform file, {agreement.inside} lie inside the"
        " draws' 95 % intervals."
    )
    for one in agreement.outside:
        console.print(f"  outside: {_run_told(one)}: {_known_told(one)}", markup=False)
    for less, more in agreement.reversed:
        console.print(
            f"  reversed: {_run_told(less)}, is known to take less than {more.run.approach}:"
            f" {_known_told(less)}; {_known_told(more)}",
            markup=False,
        )


def _line_told(advice: Advice) -> str:
    """Where a straight line through measured times is the better guide; empty without such."""
    better = "chose better than this model in studies/io-approaches"
    if advice.lined:
        names = ", ".join(map(str, advice.lined))
        return (
            f"Times of {names} are known at several frequencies of output: for the time at another"
            f" frequency, a straight line through those {better}."
        )
    if advice.inputs.get("measured"):
        return (
            "For the time of an approach that was run at two frequencies of output or more, a"
            f" straight line through its own times {better}; `wattio hpcio calibrate --held-out`"
            " compares both on your runs."
        )
    return ""


def _run_told(one: Known) -> str:
    return f"{one.run.approach}, output every {one.run.application.output_every} steps"


def _known_told(one: Known) -> str:
    """Known and predicted, as "energy 1,777 kJ, predicted 1,642 (1,578 to 1,716)"."""
    name, unit, scale = _QUANTITIES[one.quantity]
    middle, ends = _cells(one.predicted, scale)
    return f"{name} {output.number(scale * one.value)} {unit}, predicted {middle} {ends}"


def _show_worth(advice: Advice) -> None:
    console = output.console()
    if not advice.worth:
        console.print("\nKnowing any one input exactly would not make the first place surer.")
        return
    console.print("\nTo be surer, measure:")
    for worth in advice.worth[:5]:
        share = output.share(worth.first_share)
        name, origin = worth.parameter.name, worth.parameter.origin
        console.print(f"  {name} ({origin}): the first place would be {share} sure", markup=False)


def _show_configuration(advice: Advice, application: Application) -> None:
    from wattio.hpcio import damaris
    from wattio.models import approach

    first, console = advice.first.prediction, output.console()
    buffer = approach.buffer_bytes(first.resources, application.output_bytes)
    text = approach.damaris_xml(first.approach, first.resources.nodes, buffer)
    console.print("\nDamaris:")
    console.print(text, markup=False)
    part = approach.part_bytes(first.resources, application.output_bytes)
    if part > damaris.BUFFER_MAX:
        console.print(
            "Damaris has no larger buffer, and this one does not hold a node's part of a dump,"
            f" {output.number(part / 2**30)} GiB with a reserve.\n"
        )
    console.print("wattio hpcio:")
    console.print(approach.hpcio_toml(first.approach, buffer), markup=False, end="")


def _cells(value: Interval, scale: float = 1.0) -> tuple[str, str]:
    low, high = output.number(scale * value.low), output.number(scale * value.high)
    return output.number(scale * value.estimate), f"({low} to {high})"
