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

app = App(
    name="advise",
    help="Choose by a model, with intervals: `io` takes the I/O approach of a simulation, `cluster`"
    " what to buy for a storage cluster.",
    help_format="markdown",
    help_epilogue="""docs/advise.md says what the model is, and how to describe a platform.

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
wattio advise io --application app.toml --platform platform.toml --objective edp:2 --json
wattio advise io --application app.toml --platform platform.toml --approaches tp,dc:1,dn:3
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
    """Rank I/O approaches by energy or time, from what is known of application and platform.

    Every number of the platform has an interval. It is drawn from many times, so that each result
    has an interval too, and the first place says in how many of the draws it is the first.

    Parameters
    ----------
    application
        TOML file: steps, how often they write, bytes of a dump.
    platform
        TOML file: nodes, power, storage, and how fast the application computes without I/O.
    objective
        energy, time or edp:N (energy times time to the power of N).
    approaches
        Some of tp, dc:N, dn:R, with commas; tp, dc:1, dc:2, dn:15 and dn:7 otherwise.
    output_every
        Steps between dumps, instead of the file's.
    draws
        How often the intervals are drawn from: 1000 to 1000000.
    seed
        Seed of the draws.
    as_json
        Print one JSON object.
    """
    from dataclasses import replace

    from wattio.models import advice, approach, files
    from wattio.models import objective as objectives

    aim = objectives.parse(objective)
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
        output.print_json(as_object(found, machine.name, run.name))
    else:
        _show(found, machine.name, run.name)
    return 0


def as_object(advice: Advice, platform: str, application: str) -> dict[str, Any]:
    """What `--json` prints: estimates are medians, low and high a 95 % interval."""
    from wattio.models import configuration

    first = advice.first.prediction
    return {
        "platform": platform,
        "application": application,
        "objective": advice.objective.name,
        "draws": advice.draws,
        "seed": advice.seed,
        "observed_runs": advice.observed,
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
            "damaris_xml": configuration.damaris_xml(first.approach, first.resources.nodes),
            "hpcio_toml": configuration.hpcio_toml(first.approach),
        },
    }


def _ends(value: Interval) -> dict[str, float]:
    return {"estimate": value.estimate, "low": value.low, "high": value.high}


def _show(advice: Advice, platform: str, application: str) -> None:
    console = output.console()
    title = f"{application} on {platform}, by {advice.objective.name}"
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
    energies = [one.energy_j.estimate for one in advice.ranked]
    if energies != sorted(energies):
        console.print(
            "Approaches are ranked by how often each is the best within one draw; the columns are"
            " medians over all draws, whose order may differ where none is clearly the best."
        )
    for origin, names in advice.inputs.items():
        if names:
            console.print(f"{origin}: {', '.join(names)}", markup=False)
    if advice.observed:
        console.print(f"The draws agree with {advice.observed} known runs of the platform file.")
    _show_worth(advice)
    _show_configuration(advice)


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


def _show_configuration(advice: Advice) -> None:
    from wattio.models import configuration

    first, console = advice.first.prediction, output.console()
    console.print("\nDamaris:")
    console.print(configuration.damaris_xml(first.approach, first.resources.nodes), markup=False)
    console.print("wattio hpcio:")
    console.print(configuration.hpcio_toml(first.approach), markup=False, end="")


def _cells(value: Interval, scale: float = 1.0) -> tuple[str, str]:
    low, high = output.number(scale * value.low), output.number(scale * value.high)
    return output.number(scale * value.estimate), f"({low} to {high})"
