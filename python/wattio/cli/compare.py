"""`wattio compare`: two results, two runs, or platforms, as ratios with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.table import Table

from wattio.cli import output
from wattio.cli.output_path import writable
from wattio.errors import InputError
from wattio.results.folder import kind_of

if TYPE_CHECKING:
    from wattio.results.compare import Ratio

COMPARED = ("simulation", "measurement", "fleet")
"""Kinds of results that can be compared."""

ALLOWED = "allowed: two simulations, two measurements or two fleets"

app = App(
    name="compare",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio compare results/pacer/20260102T030405Z-1a2b3c4 \\
    results/pacer/20260103T030405Z-5d6e7f8
wattio compare results/quickstart/20260102T030405Z-1a2b3c4:day/native \\
    results/quickstart/20260102T030405Z-1a2b3c4:day/PACER --json
wattio compare results/pacer/20260102T030405Z-1a2b3c4 \\
    results/pacer/20260103T030405Z-5d6e7f8 \\
    --html compared.html
wattio compare "results/disk/20260102T030405Z-1a2b3c4:posix/local, 1 client" \\
    "results/disk/20260102T030405Z-1a2b3c4:posix/local, 2 clients"
wattio compare --platforms \\
    arm=results/two-clusters-arm/20260102T030405Z-1a2b3c4 \\
    x86=results/two-clusters-x86/20260103T030405Z-5d6e7f8 \\
    --html platforms.html
wattio compare --platforms arm=results/arm x86=results/x86 \\
    --platform-file prices.toml --json
```""",
)


@app.default
def compare(
    first: str | None = None,
    second: str | None = None,
    /,
    *,
    platforms: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    platform_file: Path | None = None,
    despite_options: Annotated[bool, Parameter(negative="")] = False,
    html: Path | None = None,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Compare two results: the ratio of second to first, and which differences exceed noise.

    Repetitions are compared by Welch's t test of the logarithm of the ratio of means, and simulated
    seeds that both sides have by the paired t test; each ratio has a 95 % interval. The p values of
    all metrics of a phase are corrected together (Holm). A difference is beyond noise if its
    corrected p value is below 0.05.

    Runs of the same load and policy are compared; to compare any two runs, name one on each side.
    Time, energy and the energy-delay product are compared only if both measured runs did the same
    work. Fleets are compared server by server if both have the same servers.

    With --platforms, results of different machines are shown side by side, run by run and phase by
    phase: as measured, per watt, per euro, as a share of the theoretical peak, and by the
    energy-delay product if they did the same work. Ratios are relative to the first platform.

    Parameters
    ----------
    first
        Result folder, or FOLDER:LOAD/POLICY for one run in it (FOLDER:WORKLOAD/LABEL of a
        measurement, FOLDER:fleet/POLICY of a fleet).
    second
        The same, for the other side.
    platforms
        Result folders of measurements, instead of FIRST and SECOND: each as NAME=FOLDER, or as
        FOLDER, if its study gives the name ([platform] name).
    platform_file
        TOML file of [[platform]] tables with name, price_eur and priced; it takes precedence over
        the studies.
    despite_options
        Join workloads of the same name even if their options differ in more than the amount of
        work.
    html
        Write the comparison as a page to this file, with its figure (SVG) and table (CSV) next to
        it.
    as_json
        Print one JSON object instead of tables.
    """
    if platforms is not None:
        if first is not None:
            raise InputError(f"{first}: --platforms cannot be combined with another result")
        from wattio.cli import platforms as several

        return several.compare(
            platforms, platform_file, html, despite_options=despite_options, as_json=as_json
        )
    if platform_file is not None or despite_options:
        raise InputError("--platform-file and --despite-options are for --platforms")
    if first is None or second is None:
        raise InputError("two results are compared; or --platforms NAME=FOLDER NAME=FOLDER")
    return _two(first, second, html, as_json=as_json)


def _two(first: str, second: str, html: Path | None, *, as_json: bool) -> int:
    from wattio.kinds import module_of
    from wattio.results import compare as comparing

    if html is not None:
        writable("--html", html)
    places = [comparing.split(text) for text in (first, second)]
    kinds = [_comparable(path) for path, _ in places]
    if kinds[0] != kinds[1]:
        told = " and ".join(
            f"{path} holds a {kind}" for (path, _), kind in zip(places, kinds, strict=True)
        )
        raise InputError(f"{told}; {ALLOWED}")
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
        console.print(f"{comparing.sentence(group)} ({comparing.method(group)})\n", highlight=False)
    if several := comparing.several(len(found)):
        console.print(several, highlight=False)
    if page:
        console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _comparable(path: Path) -> str:
    """The kind of a result, if it can be compared. Raises InputError, ResultError."""
    from wattio.models.runs import RESULT

    if (path / RESULT).is_file():
        raise InputError(
            f"{path}: was left by wattio hpcio run; wattio hpcio calibrate fits a model to such"
            f" results, and wattio advise io compares with it; {ALLOWED}"
        )
    kind = kind_of(path)
    if kind not in COMPARED:
        raise InputError(
            f"{path}: was left by wattiod or wattio-target: one run, whose load was not repeated;"
            f" wattiod run --alternate measures what is saved; {ALLOWED}"
        )
    return kind


def _table(group: list[Ratio]) -> Table:
    one, other = group[0].first_run, group[0].second_run
    title = one if one == other else f"{other} against {one}"
    phase = f": {group[0].phase}" if group[0].phase else ""
    from wattio.report.phrases import quantity
    from wattio.results.compare import ends, p_value, share

    table = Table(title=title + phase, title_justify="left", box=None)
    table.add_column("metric")
    for column in ("first", "n", "second", "n", "ratio", "95 % interval", "p", "seen from"):
        table.add_column(column, justify="right")
    for item in group:
        metric = f"{item.metric} (estimated)" if item.estimated else item.metric
        sides = [
            (quantity(side.mean, item.unit), str(side.n)) for side in (item.first, item.second)
        ]
        size = item.detectable_share
        told = [
            f"{item.ratio:.4f}",
            ends(item.interval, output.ABSENT),
            p_value(item.p, output.ABSENT),
        ]
        told.append(output.ABSENT if size is None else share(size))
        table.add_row(metric, *sides[0], *sides[1], *told)
    return table


def _json(group: list[Ratio]) -> dict[str, object]:
    from wattio.results.compare import LEVEL, POWER, sentence

    return {
        "first": group[0].first_run,
        "second": group[0].second_run,
        "phase": group[0].phase or None,
        "says": sentence(group),
        "test": group[0].test,
        "tests": max(item.tests for item in group),
        "level": LEVEL,
        "correction": "Holm",
        "power": POWER,
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
                "p_alone": item.p_alone,
                "p_holm": item.p,
                "beyond_noise": item.beyond_noise,
                "detectable_share": item.detectable_share,
            }
            for item in group
        ],
    }
