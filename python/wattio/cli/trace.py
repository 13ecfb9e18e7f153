"""`wattio trace`: what a block trace holds and how heavy its load is; converting and recording."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from wattio import _core, shipped
from wattio.cli import EXIT_DONE, EXIT_PROBLEM, output, trace_tables
from wattio.cli.load_options import (
    RATE_SCALE,
    SPAN_S_LEAST,
    TIME_SCALE,
    ReadingOptions,
    seconds,
    within,
)
from wattio.cli.output_path import not_read, writable
from wattio.errors import Cancelled, InputError
from wattio.signals import ENDING, handled
from wattio.simulator import traces

Form = Literal["wtrace", "msr", "vscsi", "fio2", "fio3"]

app = App(
    name="trace",
    help="Inspect, convert and record block traces.",
    help_format="markdown",
    help_epilogue="""It reads CloudPhysics vscsi, MSR Cambridge, DiskSim, HP SRT, Alibaba, Tencent,
SYSTOR '17, SPC, FIU, fio iolog 2 and 3, blkparse text and wattio's own wtrace; plain or compressed
with gz, xz or zst. The format is detected from the content, or named by `--format`. Any other text
of rows and columns is read when `--columns` says what they hold.

**Examples**

```
wattio trace info web.csv.gz
wattio trace pressure web.csv.gz --server small
wattio trace convert web.csv.gz web.wtrace --rate-scale 2
sudo wattio trace record --device vda --duration "3 min" --out load.wtrace
```""",
)

_INFO_EXAMPLES = """**Examples**

```
wattio trace info pgbench
wattio trace info web.csv.gz --json
wattio trace info disk.csv --columns time=0:us,op=2,lba=3:sectors,size=4:bytes
wattio trace info objects.csv \\
    --columns time=When:s,op=Kind:get/put,lba=Block:4k,size=Bytes:bytes
```"""

_PRESSURE_EXAMPLES = """**Examples**

```
wattio trace pressure pgbench --server small --segment "30 s"
wattio trace pressure week.srt --server dorado6000 --json
```"""

_CONVERT_EXAMPLES = """**Examples**

```
wattio trace convert web.csv.gz web.wtrace
wattio trace convert load.wtrace load.log --to fio3
wattio trace convert Financial1.spc oltp.wtrace --format spc
wattio trace convert load.wtrace half.csv.gz --to msr --rate-scale 0.5
wattio trace convert week.wtrace hour.wtrace --time-scale 0.006
```"""

_RECORD_EXAMPLES = """**Examples**

```
sudo wattio trace record --device vda --duration "3 min" --out load.wtrace
sudo wattio trace record --device nvme0n1 --duration "30 s" --out load.csv \\
    --to msr
```"""


@app.command(help_epilogue=_INFO_EXAMPLES)
def info(
    file: Path,
    /,
    *,
    reading: Annotated[ReadingOptions, Parameter(name="*")] = ReadingOptions(),  # noqa: B008
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Show what is in a trace: requests, duration, sizes, rates, idle gaps.

    Exit code 2 if the trace is damaged or its format is unknown; the message gives the record and
    its byte. Exit code 1 if it contains nothing that can be replayed.

    Parameters
    ----------
    file
        The trace, in any known format, compressed or not.
    as_json
        Print one JSON object instead of a table.
    """
    file = shipped.located(file)
    keywords = reading.keywords()
    with _bar(f"reading {file.name}") as progress:
        text = _core.trace_info(str(file), progress, **keywords)
    found = json.loads(text)
    if as_json:
        sys.stdout.write(text + "\n")
    else:
        output.console().print(trace_tables.of_trace(file, found))
    if not found["ios"]:
        output.complain(f"{file}: {traces.NOTHING}")
        return EXIT_PROBLEM
    return EXIT_DONE


@app.command(help_epilogue=_PRESSURE_EXAMPLES)
def pressure(
    file: Path,
    /,
    *,
    server: str = "small",
    segment: str = "20 min",
    reading: Annotated[ReadingOptions, Parameter(name="*")] = ReadingOptions(),  # noqa: B008
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Show how heavily a trace loads a server, in percent of the highest possible rate.

    The trace is cut into segments. The clients of the server's description replay each segment's
    mix of requests on the simulated server twice: at the trace's mean rate, and as fast as they
    can. Pressure is 100 times the sum of the rates reached in the first replays, divided by that of
    the second (section III-A3 of the PACER paper). All requests of a segment have its mean size.
    A segment without requests has pressure 0.

    Parameters
    ----------
    file
        The trace, in any known format, compressed or not.
    server
        Built-in server, or a description in TOML.
    segment
        Length of a segment; PACER's is 20 minutes.
    as_json
        Print one JSON object, with a row for each segment, instead of tables.
    """
    from wattio.simulator import simulation
    from wattio.simulator.pressure import measure, read_segments

    file = shipped.located(file)
    segment_s = seconds("--segment", segment, SPAN_S_LEAST)
    keywords = reading.keywords()
    simulation.server_text(server)  # a server that is not known is told before a long read
    with _bar(f"reading {file.name}") as progress:
        found = read_segments(file, segment_s, progress, **keywords)
    with _bar(f"replaying on {server}") as progress:
        result = measure(found, server, segment_s, progress)
    if as_json:
        output.print_json({"file": str(file), **result.as_json()})
    else:
        for table in trace_tables.of_pressure(file, result):
            output.console().print(table)
    return EXIT_DONE


@app.command(help_epilogue=_CONVERT_EXAMPLES)
def convert(
    source: Path,
    target: Path,
    /,
    *,
    to: Form = "wtrace",
    reading: Annotated[ReadingOptions, Parameter(name="*")] = ReadingOptions(),  # noqa: B008
    rate_scale: float = 1.0,
    time_scale: float = 1.0,
) -> int:
    """Write a trace in another format, at another rate or speed.

    The target appears only once it is complete, and replaces any file of that name. It is
    compressed if its name ends in .gz.

    Parameters
    ----------
    source
        The trace, in any known format, compressed or not.
    target
        The file to write.
    to
        Format of the target.
    rate_scale
        Factor on the number of requests: below 1, a random share of them is kept; above 1, copies
        follow at random within 100 ms, on additional devices. The result is the same each time.
    time_scale
        Factor on all times: 2 makes the trace take twice as long.
    """
    keywords = reading.keywords()
    writable("TARGET", target)
    not_read("TARGET", target, [source])
    within("--rate-scale", rate_scale, *RATE_SCALE)
    within("--time-scale", time_scale, *TIME_SCALE)
    with _bar(f"writing {target.name}") as progress:
        ios = _core.trace_convert(
            str(shipped.located(source)),
            str(target),
            to,
            rate_scale,
            time_scale,
            progress,
            **keywords,
        )
    output.note(f"{ios:,} requests, {target.stat().st_size:,} bytes: {target}")
    return EXIT_DONE


@app.command(help_epilogue=_RECORD_EXAMPLES)
def record(*, device: str, duration: str, out: Path, to: Form = "wtrace") -> int:
    """Record the block requests that reach a disk, through the kernel's tracepoints.

    Needs root. A request's time is when it was queued at the disk. Flushes and discards are
    counted, not recorded; wattio's own requests are left out. If the kernel lost events, nothing is
    written and the exit code is 1. Ctrl-C ends the recording and keeps it.

    Parameters
    ----------
    device
        A whole disk, such as vda or /dev/nvme0n1.
    duration
        How long, such as "3 min".
    out
        The file to write, at the end.
    to
        Format of the file.
    """
    from wattio.tracing import RecordingError
    from wattio.tracing import record as record_trace
    from wattio.tracing.tracefs import TracefsError

    duration_s = seconds("--duration", duration, SPAN_S_LEAST)
    writable("--out", out)
    if os.geteuid() != 0:
        raise InputError(
            "recording reads the kernel's tracepoints, which needs root: run it again with sudo"
        )
    try:
        with _recording_bar(device, duration_s) as watch:
            done = record_trace(device, duration_s, out, to, watch)
    except (RecordingError, TracefsError) as error:
        output.complain(str(error))
        return EXIT_PROBLEM
    if done.stopped:
        output.note(
            f"stopped after {done.elapsed_s:.1f} s of {duration_s:g} s; what was recorded is kept"
        )
    apart = f"{done.flushes:,} flushes, {done.discards:,} discards, {done.others:,} others"
    output.note(f"{done.ios:,} requests in {done.elapsed_s:.1f} s ({apart} left out): {out}")
    return EXIT_DONE


@contextlib.contextmanager
def _bar(description: str) -> Iterator[Callable[[float], bool]]:
    """A progress bar for native work, which asks it now and then whether to go on.

    A signal to end is answered by telling the native side to stop, so that it removes what it had
    begun.
    """
    stopped = False

    def note(_: int, __: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    console = output.messages()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(description, total=1.0)

    def progress(share: float) -> bool:
        bar.update(task, completed=share)
        return not stopped

    try:
        with handled(ENDING, note), bar:
            yield progress
    except InputError:
        if stopped:
            raise Cancelled("stopped; nothing was written") from None
        raise


@contextlib.contextmanager
def _recording_bar(device: str, duration_s: float) -> Iterator[Callable[[float, int], None]]:
    console = output.messages()
    columns = (
        TextColumn("recording {task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} s, {task.fields[ios]:,} requests"),
    )
    disable = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disable) as bar:
        task = bar.add_task(device, total=duration_s, ios=0)
        yield lambda elapsed_s, ios: bar.update(task, completed=elapsed_s, ios=ios)
