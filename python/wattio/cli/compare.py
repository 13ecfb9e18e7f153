"""`wattio compare`: two results, or two runs, as ratios with confidence intervals."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from wattio.cli import output

app = App(
    name="compare",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio compare results/pacer/20260102T030405Z-1a2b3c4 results/pacer/20260103T030405Z-5d6e7f8
wattio compare results/quickstart/20260102T030405Z-1a2b3c4:day/native \\
               results/quickstart/20260102T030405Z-1a2b3c4:day/PACER --json
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
        Result folder, or FOLDER:LOAD/POLICY for one run in it.
    second
        The same, for the other side.
    as_json
        Print one JSON object instead of tables.
    """
    from wattio.study import comparing

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
