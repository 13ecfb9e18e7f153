"""`wattio oracle`: the least power found for a load that is known beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
from rich.table import Table

from wattio.bounds import Bound, judge
from wattio.cli import output
from wattio.cli.load_options import LoadOptions, Quantity, seconds, within
from wattio.cli.simulate import PLF, run_with_twin, show
from wattio.errors import InputError
from wattio.simulation import Setting, relate

app = App(
    name="oracle",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio oracle --server dorado6000 --pressure 0.05 --plf 0.2
wattio oracle --profile studies/quickstart/day.toml --json
wattio oracle --server small --trace traces/pgbench.wtrace --slice "10 s"
wattio oracle --pressure 0.10 --statistic p99
```

What is found is the best of the settings that were simulated, not a proof.""",
)


@app.default
def oracle(
    *,
    server: str = "dorado6000",
    power_model: Path | None = None,
    plf: float = 0.2,
    statistic: Literal["mean", "p99"] = "mean",
    slice_: Annotated[Quantity | None, Parameter("--slice")] = None,
    load: Annotated[LoadOptions, Parameter(name="*")] = LoadOptions(),  # noqa: B008
    warmup: Quantity | None = None,
    seed: int = 1,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Find the least power that any policy could reach on a load, and play it.

    Parameters
    ----------
    server
        Built-in description (dorado6000, small) or a TOML file.
    power_model
        File of `wattio calibrate power`; the power of the server's cores is taken from it.
    plf
        Tolerated growth of the latency over native's.
    statistic
        Which latency is bounded.
    slice_
        Length of the slices that a trace is cut into; a sixtieth of it, at least 10 s.
    warmup
        Simulated first and not counted; 10 s, or nothing before a trace.
    seed
        Seed of all random numbers.
    as_json
        Print one JSON object.
    """
    within("--plf", plf, *PLF)
    settings: dict[str, Setting] = {"plf": plf, "statistic": statistic}
    if slice_ is not None:
        settings["slice_s"] = seconds("--slice", slice_)
    request = load.request(server, "oracle", settings, seed, warmup, power_model)
    outcome, native = run_with_twin(request, quiet=as_json)
    if slice_ is not None and load.trace is None:
        raise InputError("--slice goes with --trace only")
    bound = Bound.parse(f"{statistic} {plf!r} run")
    judged = [judge(bound, outcome, native)]
    result = {**outcome.summary, **relate(outcome, native, plf), "bounds": judged}
    if as_json:
        output.print_json(result)
        return 0
    show(result, native.summary)
    output.console().print(_plan(result["segments"]))
    return 0


def _plan(segments: list[dict[str, Any]]) -> Table:
    table = Table(title="best found for each segment", title_justify="left", box=None)
    for heading in ("from, s", "for, s", "cores", "GHz", "W", "native W", "latency", "tried"):
        table.add_column(heading, justify="right")
    for segment in segments:
        table.add_row(
            f"{segment['start_s']:.1f}",
            f"{segment['span_s']:.1f}",
            "/".join(str(count) for count in segment["cores"]),
            f"{segment['frequency_hz'] / 1e9:.2f}",
            output.number(segment["power_w_mean"]),
            output.number(segment["power_w_native"]),
            output.ratio(segment["latency_ratio"]),
            str(segment["simulated"]),
        )
    return table
