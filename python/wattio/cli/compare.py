"""`wattio compare`: two results, or two runs, as ratios with confidence intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.table import Table

from wattio.cli import output
from wattio.errors import InputError
from wattio.results.folder import LEFT_BY_DAEMON, kind_of

if TYPE_CHECKING:
    from wattio.results.compare import Ratio

COMPARED = ("simulation", "measurement")
"""Kinds of results that can be compared."""

app = App(
    name="compare",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio compare results/pacer/20260102T030405Z-1a2b3c4 results/pacer/20260103T030405Z-5d6e7f8
wattio compare results/quickstart/20260102T030405Z-1a2b3c4:day/native \\
               results/quickstart/20260102T030405Z-1a2b3c4:day/PACER --json
wattio compare results/pacer/20260102T030405Z-1a2b3c4 results/pacer/20260103T030405Z-5d6e7f8 \\
               --html compared.html
wattio compare "results/disk/20260102T030405Z-1a2b3c4:posix/local, 1 client" \\
               "results/disk/20260102T030405Z-1a2b3c4:posix/local, 2 clients"
```""",
)


@app.default
def compare(
    first: str,
    second: str,
    *,
    html: Path | None = None,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
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
    html
        Write a page of the comparison to this file, with its figure (SVG) and table (CSV) beside.
    as_json
        Print one JSON object instead of tables.
    """
    from wattio.kinds import module_of
    from wattio.results import compare as comparing

    places = [comparing.split(text) for text in (first, second)]
    kinds = [kind_of(path) for path, _ in places]
    for (path, _), kind in zip(places, kinds, strict=True):
        if kind == "governor":
            raise InputError(f"{path}: {LEFT_BY_DAEMON}")
        if kind not in COMPARED or kind != kinds[0]:
            raise InputError(
                f"{path}: holds a {kind}; two simulations are compared, or two measurements"
            )
    sides = [
        comparing.side(module_of(path, "folder").open_folder(path), run) for path, run in places
    ]
    ratios = module_of(places[0][0], "compare").ratios
    found = comparing.by_phase(comparing.compare(sides[0], sides[1], ratios))
    page = None
    if html is not None:
        from wattio.report import comparison

        page = comparison.make(html, sides[0], sides[1], found)
    if as_json:
        content = {"first": first, "second": second, "compared": list(map(_json, found))}
        output.print_json(content | ({"page": str(page)} if page else {}))
        return 0
    console = output.console()
    for group in found:
        console.print(_table(group))
        console.print(
            f"{comparing.sentence(group)} (95 % intervals from {group[0].drawn})\n", highlight=False
        )
    if page:
        console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _table(group: list[Ratio]) -> Table:
    one, other = group[0].first_run, group[0].second_run
    title = one if one == other else f"{other} against {one}"
    phase = f": {group[0].phase}" if group[0].phase else ""
    table = Table(title=title + phase, title_justify="left", box=None)
    table.add_column("metric")
    for column in ("first", "n", "second", "n", "unit", "ratio", "95 % interval"):
        table.add_column(column, justify="right")
    for item in group:
        metric = f"{item.metric} (estimated)" if item.estimated else item.metric
        sides = [(output.number(side.mean), str(side.n)) for side in (item.first, item.second)]
        interval = output.ABSENT
        if item.interval is not None:
            interval = f"{item.interval.low:.4f} to {item.interval.high:.4f}"
        table.add_row(metric, *sides[0], *sides[1], item.unit, f"{item.ratio:.4f}", interval)
    return table


def _json(group: list[Ratio]) -> dict[str, object]:
    from wattio.results.compare import sentence

    return {
        "first": group[0].first_run,
        "second": group[0].second_run,
        "phase": group[0].phase or None,
        "says": sentence(group),
        "drawn": group[0].drawn,
        "ratios": [
            {
                "metric": item.metric,
                "unit": item.unit,
                "estimated": item.estimated,
                "first": item.first.mean,
                "second": item.second.mean,
                "n": [item.first.n, item.second.n],
                "ratio": item.ratio,
                "interval": item.interval and [item.interval.low, item.interval.high],
            }
            for item in group
        ],
    }
