"""`wattio recompute`: every metric of a result, derived again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from wattio.cli import output

app = App(
    name="recompute",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio recompute results/quickstart/20260102T030405Z-1a2b3c4
wattio recompute results/quickstart/20260102T030405Z-1a2b3c4 --json
```

Exit code 1 if a metric differs.""",
)


@app.default
def recompute(
    result: Path, *, as_json: Annotated[bool, Parameter("--json", negative="")] = False
) -> int:
    """Derive every metric in the catalog again from raw files and samples; report differences.

    For a simulation, energies are summed over windows and components, mean latencies are weighted
    by I/Os, and percentiles come from the merged histograms; all must agree to one part in 10^9.
    For a measurement, everything is read again from the tools' own output and the power samples;
    all must agree to the last digit.

    Parameters
    ----------
    result
        Result folder of `wattio run`, `wattiod` or `wattio-target`.
    as_json
        Print one JSON object.
    """
    from wattio.kinds import module_of

    folder = module_of(result, "folder").open_folder(result)
    comparison = module_of(result, "recompute").compare(folder)
    compared, found = comparison.compared, comparison.differences
    if as_json:
        rows = [difference.__dict__ for difference in found]
        output.print_json({"result": str(result), "compared": compared, "differences": rows})
        return 1 if found else 0
    console = output.console()
    if not found:
        console.print(f"ok: {compared} derivations agree with the catalog", highlight=False)
        return 0
    table = Table(title=f"{len(found)} of {compared} derivations differ", box=None)
    for column in ("run", "seed", "metric", "in the catalog", "derived", "from"):
        table.add_column(column)
    for item in found:
        values = [output.ABSENT if v is None else repr(v) for v in (item.recorded, item.derived)]
        table.add_row(item.run, str(item.seed), item.metric, *values, item.source)
    console.print(table)
    return 1
