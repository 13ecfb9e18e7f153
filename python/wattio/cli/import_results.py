"""`wattio import`: results that benchmarks left, in one form, with what is doubtful about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from wattio.cli import EXIT_DONE, output
from wattio.errors import InputError, ResultError
from wattio.files.named import as_text, read_once

if TYPE_CHECKING:
    from rich.table import Table

    from wattio.workloads.fio_log import Window
    from wattio.workloads.imported import Imported
    from wattio.workloads.workload import Operation


_BYTES_MAX = 512 << 20
"""No tool prints more than that of one run."""

AsJson = Annotated[bool, Parameter("--json", negative="")]

app = App(
    name="import",
    help="Show the output of fio, IOR or mdtest in one common form.",
    help_format="markdown",
    help_epilogue="""Known doubts about the figures are reported: answers from a client's
cache, time stamps in whole seconds, population instead of sample deviations, clients that did not
run at the same time.

**Examples**

```
wattio import fio fio.json
wattio import ior ior.json --zone Europe/Berlin --json
wattio import mdtest mdtest.txt
wattio import fio-log job_lat.1.log --window "10 s"
```""",
)


@app.command
def fio(file: Path, /, *, as_json: AsJson = False) -> int:
    """Read output of fio with --output-format=json or json+.

    If there are several reports, as from --status-interval, the last is read. Percentiles need
    json+.

    Parameters
    ----------
    file
        What fio printed; text may stand before the JSON.
    as_json
        Print one JSON object instead of a table.
    """
    from wattio.workloads import fio_output
    from wattio.workloads.imported import Imported

    def parse(text: str) -> Imported:
        told = fio_output.parse(text)
        if failure := told.failure():
            raise ResultError(f"{failure}: no result")
        operations = tuple(fio_output.operations([told]))
        return Imported("fio", told.version.removeprefix("fio-"), operations)

    return _show(_read(file, parse), as_json)


@app.command
def ior(file: Path, /, *, zone: str = "UTC", as_json: AsJson = False) -> int:
    """Read output of IOR 2.10 to 4.x: JSON, text, or the CSV of 4.x.

    Parameters
    ----------
    file
        What IOR printed, or its summary file.
    zone
        The time zone of IOR's time stamps, which name none, such as Europe/Berlin.
    as_json
        Print one JSON object instead of a table.
    """
    from zoneinfo import ZoneInfo

    from wattio.workloads import ior_output

    try:
        found = ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(
            f'--zone "{zone}": unknown time zone; give one such as UTC or Europe/Berlin'
        ) from error
    return _show(_read(file, lambda text: ior_output.parse(text, found)), as_json)


@app.command
def mdtest(file: Path, /, *, as_json: AsJson = False) -> int:
    """Read the table of rates that mdtest prints, 3.x or 4.x.

    Parameters
    ----------
    file
        What mdtest printed.
    as_json
        Print one JSON object instead of a table.
    """
    from wattio.workloads import mdtest_output

    return _show(_read(file, mdtest_output.parse), as_json)


@app.command
def fio_log(file: Path, /, *, window: str | None = None, as_json: AsJson = False) -> int:
    """Read a latency log of fio (write_lat_log): percentiles of each direction.

    Parameters
    ----------
    file
        The log: time in ms, latency in ns, direction, block size.
    window
        Also show the percentiles of each stretch of this length, such as "10 s".
    as_json
        Print one JSON object instead of a table.
    """
    from dataclasses import asdict

    from wattio.workloads import fio_log as log_file

    window_s = _window_s(window)
    log = log_file.read(file)
    found = log_file.summary(file, log)
    parts = log_file.windows(file, log, window_s) if window_s is not None else []
    if as_json:
        more = {"windows": [asdict(one) for one in parts]} if window_s is not None else {}
        output.print_json({**found.as_dict(), **more})
        return EXIT_DONE
    _show(found, as_json=False)
    if parts:
        output.console().print(_windows(parts))
    return EXIT_DONE


def _window_s(window: str | None) -> float | None:
    from wattio.cli.load_options import SPAN_S_LEAST, seconds

    # 1 ms is the step of such a log.
    return None if window is None else seconds("--window", window, SPAN_S_LEAST)


def _read(file: Path, parse: Callable[[str], Imported]) -> Imported:
    """Parse a file; what is wrong with it is told with its name. Raises InputError."""
    try:
        text = as_text(read_once(file, _BYTES_MAX), errors="replace")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    try:
        return parse(text)
    except ResultError as error:
        raise InputError(f"{file}: {error}") from error


def _show(found: Imported, as_json: bool) -> int:
    if as_json:
        output.print_json(found.as_dict())
        return EXIT_DONE
    from rich.table import Table

    title = f"{found.tool} {found.version}"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("phase")
    table.add_column("operation")
    amounts, tails = ("seconds", "MiB", "MiB/s", "IOPS"), ("mean", "p50", "p99", "p99.9", "p99.99")
    for column in (*amounts, *(f"{tail} us" for tail in tails)):
        table.add_column(column, justify="right")
    for one in found.operations:
        table.add_row(one.phase, one.operation, *map(output.number, _numbers(one)))
    console = output.console()
    console.print(table)
    for note in found.notes:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    for doubt, about in _doubts(found).items():
        line = f"doubtful: {', '.join(about)}: {doubt}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return EXIT_DONE


def _numbers(one: Operation) -> list[float | None]:
    moved = None if one.bytes is None else one.bytes / (1 << 20)
    latency = [one.latency_us.get(name) for name in ("mean", "p50", "p99", "p999", "p9999")]
    return [one.seconds, moved, one.throughput_mib_s, one.iops, *latency]


def _doubts(found: Imported) -> dict[str, list[str]]:
    """Each doubt once, with what it is about."""
    doubts: dict[str, list[str]] = {}
    for one in found.operations:
        about = one.phase if one.operation in one.phase else f"{one.phase} {one.operation}"
        for doubt in one.doubts:
            doubts.setdefault(doubt, []).append(about)
    return doubts


def _windows(parts: list[Window]) -> Table:
    from rich.table import Table

    table = Table(title="windows", title_justify="left", box=None)
    table.add_column("from s", justify="right")
    table.add_column("operation")
    for column in ("operations", "mean us", "p50 us", "p99 us", "max us"):
        table.add_column(column, justify="right")
    for one in parts:
        latency = (one.latency_us[name] for name in ("mean", "p50", "p99", "max"))
        numbers = (output.number(float(one.operations)), *map(output.number, latency))
        table.add_row(f"{one.start_s:g}", one.operation, *numbers)
    return table
