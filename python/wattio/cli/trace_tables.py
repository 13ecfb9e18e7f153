"""What `wattio trace` prints: a trace as a table, its pressure segment by segment."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from wattio.cli import output
from wattio.files.plain import plain

if TYPE_CHECKING:
    from wattio.simulator.pressure import Pressure


def of_trace(file: Path, found: dict[str, Any]) -> Table:
    """What `_core.trace_info` tells, for people."""
    table = Table(title=Text(str(file)), title_justify="left", box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in _rows(found):
        table.add_row(name, value)
    return table


def _rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "format", found["format"]
    yield "requests", f"{found['ios']:,}"
    yield "span", _span(found["span_s"])
    yield "devices", f"{found['devices']:,}"
    yield "read", f"{_bytes(found['read_bytes'])}, {_share(found['read_share'])} of the requests"
    yield "written", _bytes(found["write_bytes"])
    yield "sequential", f"{_share(found['sequential_share'])} of the requests"
    if sizes := found["size_bytes"]:
        yield (
            "size",
            f"p50 {_bytes(sizes['p50'])}, p95 {_bytes(sizes['p95'])},"
            f" max {_bytes(sizes['max'])}, mean {_bytes(sizes['mean'])}",
        )
        common = (f"{_bytes(one['bytes'])} {_share(one['share'])}" for one in sizes["common"])
        yield "common sizes", ", ".join(common)
    if rate := found["rate_per_s"]:
        mean = "-" if rate["mean"] is None else plain(rate["mean"])
        # A trace shorter than a second fills none: what it counts there is no rate.
        whole = rate["mean"] is None or found["span_s"] >= 1
        counts = f"p50 {rate['p50']:,}, p95 {rate['p95']:,}, max {rate['max']:,}, " if whole else ""
        yield "requests per second", f"{counts}mean {mean}"
    gaps = found["idle_gaps"]
    longest = f", longest {_span(gaps['longest_s'])}, {_share(gaps['share'])} of the span"
    yield "idle gaps over 30 s", f"{gaps['count']:,}" + (longest if gaps["count"] else "")
    skipped = {name.replace("_", " "): n for name, n in found["skipped"].items() if n}
    yield "left out", ", ".join(f"{n:,} {name}" for name, n in skipped.items()) or "nothing"
    if found["clamped"]:
        yield "late in the file", f"{found['clamped']:,} requests, their times clamped"


def of_pressure(file: Path, found: Pressure) -> Iterator[Table]:
    """The segments, and below them the trace as a whole."""
    title = Text(f"{file} on {found.server}")
    rows = Table(title=title, title_justify="left", box=None)
    names = ("from", "requests", "IOPS", "achieved", "possible", "read", "random", "mean size")
    for column in names:
        rows.add_column(column, justify="right")
    rows.add_column("pressure", justify="right", style="bold")
    for one in found.segments:
        rows.add_row(
            str(timedelta(seconds=one.start_s)),
            f"{one.ios:,}",
            output.number(one.iops_mean),
            output.number(one.iops_achieved),
            output.number(one.iops_possible),
            _share(one.read_share),
            _share(one.random_share),
            output.ABSENT if one.size_bytes is None else _bytes(one.size_bytes["mean"]),
            _percent(one.pressure_percent),
        )
    yield rows
    whole = Table(box=None, show_header=False)
    whole.add_column(style="bold")
    whole.add_column()
    p50, p95, most = (_percent(found.percentile(share)) for share in (0.5, 0.95, 1.0))
    below = (f"{output.share(found.time_share_below(at))} under {at:g} %" for at in (1, 10, 50))
    empty = sum(one.ios == 0 for one in found.segments)
    whole.add_row("pressure", _percent(found.percent))
    whole.add_row("over time", f"p50 {p50}, p95 {p95}, max {most}")
    whole.add_row("share of time", ", ".join(below))
    whole.add_row("segments", f"{len(found.segments):,}, {empty:,} of them without requests")
    whole.add_row("clients", f"{found.clients:,}")
    yield whole


def _percent(value: float) -> str:
    return "< 0.001 %" if 0 < value < 0.001 else f"{value:.3f} %"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _span(seconds: float) -> str:
    for limit_s, unit_s, unit in ((172_800, 86_400, "days"), (7_200, 3_600, "h"), (120, 60, "min")):
        if seconds >= limit_s:
            return f"{seconds / unit_s:.2f} {unit} ({seconds:,.1f} s)"
    return f"{seconds:.3f} s"


def _bytes(count: float) -> str:
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count:.4g} B"
