"""What `wattio compare --platforms` does and prints: campaigns on platforms of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from wattio.cli import output
from wattio.cli.output_path import writable
from wattio.errors import InputError
from wattio.files.plain import plain
from wattio.results.folder import kind_of

if TYPE_CHECKING:
    from wattio.kinds.measurement.platform import Platform
    from wattio.kinds.measurement.platforms import Comparison, Joined, Line, Value
    from wattio.results.compare import Ratio


METHOD = (
    "Ratios are over the first platform: Welch's t test of the logarithm of the ratio of means,"
    " over repetitions; p is corrected for all metrics of a table by Holm's method, and 95 %"
    " intervals are of each metric alone. Prices and peaks are taken as exact"
)


def compare(
    given: list[str],
    platform_file: Path | None,
    html: Path | None,
    *,
    despite_options: bool,
    as_json: bool,
) -> int:
    """Join, print, and write the page. Raises InputError and ResultError."""
    from wattio.kinds.measurement import platforms

    if html is not None:
        writable("--html", html)
    found = platforms.compare(_opened(given, platform_file), despite_options=despite_options)
    page = None
    if html is not None:
        from wattio.report import platforms as pages

        page = pages.make(html, found)
    if as_json:
        output.print_json(as_object(found) | ({"page": str(page)} if page else {}))
    else:
        _show(found, page)
    return 0


def _opened(given: list[str], file: Path | None) -> list[Platform]:
    from wattio.kinds.measurement import platform_file
    from wattio.kinds.measurement.platform import platform

    if len(given) < 2:
        raise InputError(f"--platforms: {len(given)} given; allowed: two or more NAME=FOLDER")
    named = [_split(text) for text in given]
    seen: dict[Path, str] = {}
    for text, (_, path) in zip(given, named, strict=True):
        if (kind := kind_of(path)) != "measurement":
            raise InputError(f"{path}: holds a {kind}; platforms are of measurements")
        if (other := seen.setdefault(path.resolve(), text)) is not text:
            raise InputError(f"--platforms: {text} is the folder of {other}: one campaign each")
    found = [platform(name, path) for name, path in named]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f'--platforms: two are named "{name}"; write NAME=FOLDER')
    if file is None:
        return found
    told = platform_file.read(file, names)
    return [platform(one.name, one.folder.path, told.get(one.name)) for one in found]


def _split(text: str) -> tuple[str | None, Path]:
    """`NAME=FOLDER`, or a folder alone, whose name may hold a = itself."""
    name, separator, rest = text.partition("=")
    if not separator or Path(text).is_dir():
        return None, Path(text)
    if not name or not rest:
        raise InputError(f"--platforms: {text!r} is not NAME=FOLDER")
    return name, Path(rest)


def as_object(found: Comparison) -> dict[str, Any]:
    """What `--json` prints."""
    from wattio.kinds.measurement.platforms import headline
    from wattio.results.compare import LEVEL, method

    names = [one.name for one in found.platforms]
    return {
        "platforms": [
            {
                "name": one.name,
                "folder": str(one.folder.path),
                "description": one.about.description or None,
                "price_eur": one.about.price_eur,
                "priced": one.about.priced or None,
                "covers": one.covered,
                "subtracted": one.subtracted,
            }
            for one in found.platforms
        ],
        "level": LEVEL,
        "correction": "Holm",
        "joined": [
            {
                "run": one.run,
                "phase": one.phase or None,
                "says": [
                    {"platform": family[0].second_run, "text": headline(family)}
                    for family in one.families
                ],
                "test": method(one.families[0]) if one.families else None,
                "doubts": list(one.doubts),
                "metrics": [_line_object(line, names) for line in one.lines],
            }
            for one in found.joined
        ],
        "not_joined": list(found.unjoined),
        "doubts": list(found.doubts),
    }


def _line_object(line: Line, names: list[str]) -> dict[str, Any]:
    return {
        "metric": line.metric,
        "unit": line.unit,
        "estimated": line.estimated,
        "values": [
            {
                "platform": name,
                "mean": value.estimate.mean,
                "deviation": value.estimate.deviation,
                "n": value.estimate.n,
                "estimated": value.estimated,
                "over_least": over,
            }
            for name, value, over in zip(names, line.values, line.over_least, strict=True)
            if value is not None
        ],
        "ratios": [_ratio_object(ratio) for ratio in line.ratios if ratio is not None],
    }


def _ratio_object(item: Ratio) -> dict[str, Any]:
    return {
        "platform": item.second_run,
        "over": item.first_run,
        "ratio": item.ratio,
        "interval": item.interval and [item.interval.low, item.interval.high],
        "estimated": item.estimated,
        "p_alone": item.p_alone,
        "p_holm": item.p,
        "tests": item.tests,
        "beyond_noise": item.beyond_noise,
        "detectable_share": item.detectable_share,
    }


def _show(found: Comparison, page: Path | None) -> None:
    from wattio.kinds.measurement.platforms import headline
    from wattio.results.compare import several

    console = output.console()
    names = [one.name for one in found.platforms]
    for one in found.joined:
        console.print(_table(one, names))
        for family in one.families:
            lead = f"{family[0].second_run} over {family[0].first_run}: "
            console.print(lead + headline(family), highlight=False)
        for doubt in one.doubts:
            console.print(f"  doubt: {doubt}", highlight=False)
        console.print()
    console.print(f"{METHOD}.", highlight=False)
    if text := several(sum(len(one.families) for one in found.joined)):
        console.print(text, highlight=False)
    for doubt in found.doubts:
        console.print(f"doubt: {doubt}", highlight=False)
    for left in found.unjoined:
        console.print(f"not joined: {left}", highlight=False)
    if page:
        console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)


def _table(joined: Joined, names: list[str]) -> Table:
    from wattio.results.compare import ends, p_value

    table = Table(title=joined.title, title_justify="left", box=None)
    table.add_column("metric")
    for name in names:
        table.add_column(f"{name} (n)", justify="right")
    table.add_column("unit")
    table.add_column("over the least", justify="right")
    for name in names[1:]:
        for heading in (f"{name} / {names[0]}", "95 % interval", "p"):
            table.add_column(heading, justify="right")
    for line in joined.lines:
        cells = [_cell(value) for value in line.values]
        over = [output.number(one) for one in line.over_least if one is not None]
        least = ", ".join(over) if line.metric.startswith("edp") else output.ABSENT
        compared = []
        for ratio in line.ratios:
            if ratio is None:
                compared += [output.ABSENT] * 3
                continue
            compared.append(plain(ratio.ratio, 4))
            compared.append(ends(ratio.interval, output.ABSENT))
            compared.append(p_value(ratio.p, output.ABSENT))
        name = f"{line.metric} (estimated)" if line.estimated else line.metric
        table.add_row(name, *cells, line.unit, least, *compared)
    return table


def _cell(value: Value | None) -> str:
    if value is None:
        return output.ABSENT
    mark = ", est." if value.estimated else ""
    return f"{output.number(value.estimate.mean)} ({value.estimate.n}{mark})"
