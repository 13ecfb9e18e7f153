"""`wattio compare`: two results, or two runs, as ratios with confidence intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.table import Table

from wattio.cli import output

if TYPE_CHECKING:
    from wattio.kinds.measurement.compare import Ratio

app = App(
    name="compare",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio compare results/pacer/20260102T030405Z-1a2b3c4 results/pacer/20260103T030405Z-5d6e7f8
wattio compare results/quickstart/20260102T030405Z-1a2b3c4:day/native \\
               results/quickstart/20260102T030405Z-1a2b3c4:day/PACER --json
wattio compare "results/disk/20260102T030405Z-1a2b3c4:posix/local, 1 client" \\
               "results/disk/20260102T030405Z-1a2b3c4:posix/local, 2 clients"
```""",
)


@app.default
def compare(
    first: str, second: str, *, as_json: Annotated[bool, Parameter("--json", negative="")] = False
) -> int:
    """Compare two results metric by metric: second over first, with a 95 % interval.

    Runs of the same load and policy are compared; name one run on each side to compare any two.

    Parameters
    ----------
    first
        Result folder, or FOLDER:LOAD/POLICY for one run in it (FOLDER:WORKLOAD/LABEL of a
        measurement).
    second
        The same, for the other side.
    as_json
        Print one JSON object instead of tables.
    """
    if _is_measured(first):
        return _measured(first, second, as_json)
    from wattio.kinds.simulation import compare as comparing

    found = comparing.compare(comparing.Side.parse(first), comparing.Side.parse(second))
    if as_json:
        rows = [ratio.__dict__ | {"ratio": ratio.ratio.__dict__} for ratio in found]
        output.print_json({"first": first, "second": second, "ratios": rows})
        return 0
    console = output.console()
    for names in dict.fromkeys((ratio.first_run, ratio.second_run) for ratio in found):
        own = [ratio for ratio in found if (ratio.first_run, ratio.second_run) == names]
        title = names[0] if names[0] == names[1] else f"{names[1]} against {names[0]}"
        table = Table(title=title, title_justify="left", box=None)
        table.add_column("metric")
        for column in ("first", "second", "unit", "ratio", "95 % interval"):
            table.add_column(column, justify="right")
        for ratio in own:
            interval = f"{ratio.ratio.low:.4f} to {ratio.ratio.high:.4f}"
            numbers = output.number(ratio.first), output.number(ratio.second), ratio.unit
            table.add_row(ratio.metric, *numbers, f"{ratio.ratio.estimate:.4f}", interval)
        console.print(table)
        console.print(f"intervals from {own[0].drawn}\n", highlight=False)
    return 0


def _is_measured(side: str) -> bool:
    from wattio.results.folder import kind_of

    path = Path(side) if Path(side).exists() else Path(side.partition(":")[0])
    return path.is_dir() and kind_of(path) == "measurement"


def _measured(first: str, second: str, as_json: bool) -> int:
    from wattio.kinds.measurement import compare as comparing

    found = comparing.compare(comparing.Side.parse(first), comparing.Side.parse(second))
    keys = list(dict.fromkeys((item.first_run, item.second_run, item.phase) for item in found))
    groups = [
        [item for item in found if (item.first_run, item.second_run, item.phase) == key]
        for key in keys
    ]
    if as_json:
        rows = [
            {
                "first": key[0],
                "second": key[1],
                "phase": key[2],
                "says": comparing.sentence(own),
                "ratios": [_ratio_json(item) for item in own],
            }
            for key, own in zip(keys, groups, strict=True)
        ]
        output.print_json({"first": first, "second": second, "compared": rows})
        return 0
    console = output.console()
    for (one, other, phase), own in zip(keys, groups, strict=True):
        name = one if one == other else f"{other} against {one}"
        table = Table(title=f"{name}: {phase}", title_justify="left", box=None)
        table.add_column("metric")
        for column in ("first", "n", "second", "n", "unit", "ratio", "95 % interval"):
            table.add_column(column, justify="right")
        for item in own:
            metric = f"{item.metric} (estimated)" if item.estimated else item.metric
            numbers = output.number(item.first.mean), str(item.first.n)
            others = output.number(item.second.mean), str(item.second.n)
            interval = output.ABSENT
            if item.interval is not None:
                interval = f"{item.interval.low:.4f} to {item.interval.high:.4f}"
            table.add_row(metric, *numbers, *others, item.unit, f"{item.ratio:.4f}", interval)
        console.print(table)
        console.print(comparing.sentence(own) + "\n", highlight=False)
    return 0


def _ratio_json(item: Ratio) -> dict[str, object]:
    interval = None if item.interval is None else [item.interval.low, item.interval.high]
    return {
        "metric": item.metric,
        "unit": item.unit,
        "estimated": item.estimated,
        "first": item.first.mean,
        "second": item.second.mean,
        "n": [item.first.n, item.second.n],
        "ratio": item.ratio,
        "interval": interval,
    }
