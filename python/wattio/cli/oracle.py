"""`wattio oracle`: the least power found for a load that is known beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
from rich.table import Table

from wattio.cli import output
from wattio.cli.load_options import LoadOptions, Quantity, seconds, within
from wattio.cli.simulate import PLF, run_with_twin, show, with_year
from wattio.simulator.bounds import Bound, judge
from wattio.simulator.oracle import bound_of, check_bounds
from wattio.simulator.simulation import Setting, relate

app = App(
    name="oracle",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio oracle --server dorado6000 --pressure 0.05 --plf 0.2
wattio oracle --profile quickstart/day.toml --json
wattio oracle --server small --trace pgbench --slice "1 s"
wattio oracle --pressure 0.10 --statistic p99
wattio oracle --server small --iops 4000 --bound "mean 20%" --bound "p99 50%"
```

The result is the best that a search over simulated settings found: at least as good as what any
policy saves within the same bounds, but not a proven optimum.""",
)


@app.default
def oracle(
    *,
    server: str = "dorado6000",
    power_model: Path | None = None,
    plf: float = 0.2,
    statistic: Literal["mean", "p99"] = "mean",
    bound: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    background_delay: Quantity | None = None,
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
        Power of the server's cores, from a file that `wattio calibrate power` wrote.
    plf
        Performance-loss factor: how far the latency may exceed that at full speed.
    statistic
        The statistic that --plf limits.
    bound
        A bound on latency, instead of --plf and --statistic, such as "p99 2 ms window"; up to
        three.
    background_delay
        The longest that background work may wait, give or take half a slot; as long as at full
        speed, if that is longer. Default: as long as the server keeps such work.
    slice_
        Length of the time slots that each get one setting; default: 0.5 s, and longer for loads of
        more than 2 h.
    warmup
        Time that is simulated first and not counted; default: 10 s, or none before a trace.
    seed
        Seed of all random numbers.
    as_json
        Print one JSON object.
    """
    within("--plf", plf, *PLF)
    settings: dict[str, Setting] = {"plf": plf, "statistic": statistic}
    if slice_ is not None:
        settings["slice_s"] = seconds("--slice", slice_)
    if background_delay is not None:
        settings["background_delay_s"] = seconds("--background-delay", background_delay)
    request = load.request(server, "oracle", settings, seed, warmup, power_model)
    check_bounds(bound)
    bounds = Bound.several(bound or (bound_of(settings),))
    request = replace(request, bounds=tuple(each.text for each in bounds))
    outcome, native = run_with_twin(request, quiet=as_json)
    judged = [judge(each, outcome, native) for each in bounds]
    of_plf = plf if not bound and statistic == "mean" else None
    result = {**outcome.summary, **relate(outcome, native, of_plf), "bounds": judged}
    if as_json:
        output.print_json(with_year(result, native.summary))
        return 0
    show(result, native.summary, request)
    for line in _sentences(result["search"]):
        output.console().print(line, highlight=False)
    output.console().print(_plan(result["segments"]))
    return 0


def _sentences(search: dict[str, Any]) -> list[str]:
    """How the plan was found, in words."""
    found = (
        f"best found of {search['simulated']} simulations, in slots of {search['slot_s']:g} s; "
        f"tolerance of the search {search['tolerance_share']:.2%} of native's energy"
    )
    kept = [rival for rival in search["rivals"] if rival["kept"]]
    best = max(kept, key=lambda rival: rival["saving_share"], default=None)
    if search["winner"] is not None:
        return [found, f"this is the run of the policy {search['winner']}, which was not beaten"]
    if best is None:
        return [found, "no policy kept these promises"]
    return [
        found,
        f"best policy that kept them: {best['policy']}, {best['saving_share']:.1%} saved",
    ]


_ROWS_MAX = 24


def _plan(segments: list[dict[str, Any]]) -> Table:
    """The settings and how long each was in force, the most used first."""
    table = Table(title="settings, by time in force", title_justify="left", box=None)
    headings = ("share", "cores", "GHz", "background", "drives", "W", "native W", "latency")
    for heading in headings:
        table.add_column(heading, justify="right")
    spans: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for segment in segments:
        spans.setdefault(_setting(segment), []).append(segment)
    total_s = sum(segment["span_s"] for segment in segments)
    groups = sorted(spans.items(), key=lambda item: -_sum_s(item[1]))
    for setting, each in groups[:_ROWS_MAX]:
        span_s = _sum_s(each)
        means = (
            sum(segment[key] * segment["span_s"] for segment in each) / span_s
            for key in ("power_w_mean", "power_w_native")
        )
        ratios = [s for s in each if s["latency_ratio"] is not None]
        ratio = None
        if ratios:
            ratio = sum(s["latency_ratio"] * s["span_s"] for s in ratios) / _sum_s(ratios)
        powers = [output.number(mean) for mean in means]
        table.add_row(f"{span_s / total_s:.1%}", *setting, *powers, output.ratio(ratio))
    left = len(groups) - _ROWS_MAX
    if left > 0:
        table.caption = f"and {left} more; --json has the whole sequence"
    return table


def _setting(segment: dict[str, Any]) -> tuple[str, ...]:
    budget = segment["background_budget"]
    return (
        "/".join(str(count) for count in segment["cores"]),
        "/".join(f"{hertz / 1e9:.2f}" for hertz in segment["frequency_hz"]),
        "as due" if budget is None else f"{budget:.2f} cores",
        str(segment["drives"]),
    )


def _sum_s(segments: list[dict[str, Any]]) -> float:
    return float(sum(segment["span_s"] for segment in segments))
