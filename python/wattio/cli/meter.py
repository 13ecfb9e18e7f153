"""`wattio meter`: what meters there are, what they say, recording, checking and serving them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.table import Table

from wattio.cli import EXIT_DONE, EXIT_PROBLEM, output
from wattio.errors import InputError

if TYPE_CHECKING:
    from wattio.recording.check import Check


_HELP = "Power meters: list, read, record, check and serve them."

app = App(
    name="meter",
    help=_HELP,
    help_format="markdown",
    help_epilogue="""A meter has a name such as `rapl:package-0` or `snmp://public@pdu/...`;
`wattio meter list` shows how each kind is written; docs/meters.md says how exact each kind is.

**Examples**

```
wattio meter list
wattio meter read rapl:
wattio meter record rapl: estimate:assumed --out power.parquet \\
    --duration "5 min"
wattio meter check hwmon:power_meter/power1
wattio meter serve ptdaemon --from rapl:
```""",
)
serve_app = App(name="serve", help="Serve a meter to programs that speak another protocol.")
app.command(serve_app)

Json = Annotated[bool, Parameter("--json", negative="")]


@app.command(
    name="list",
    help_epilogue="**Examples**\n\n```\nwattio meter list\nwattio meter list --json\n```",
)
def list_meters(*, as_json: Json = False) -> int:
    """List the meters of this machine, and how meters of each kind are named.

    Parameters
    ----------
    as_json
        Print one JSON object.
    """
    from wattio.meters import KINDS, kind_of

    modules = {module.FORM: module for module in map(kind_of, (f"{kind}:" for kind in KINDS))}
    found = [meter for module in modules.values() for meter in module.find()]
    if as_json:
        meters = [{"name": m.name, "what": m.what, "trouble": m.trouble} for m in found]
        output.print_json({"meters": meters, "forms": list(modules)})
        return EXIT_DONE
    console = output.console()
    table = _plain_table("meter", "what it measures", "why it cannot be read now")
    for meter in found:
        table.add_row(meter.name, meter.what, meter.trouble or "")
    if found:
        console.print(table)
    else:
        console.print("wattio finds no meter on this machine by itself.", markup=False)
    forms = _plain_table("names are written")
    for form in modules:
        forms.add_row(form)
    console.print()
    console.print(forms)
    return EXIT_DONE


@app.command(
    help_epilogue="**Examples**\n\n```\nwattio meter read rapl:package-0\n"
    "wattio meter read estimate:assumed --json\n```"
)
def read(name: str, /, *, as_json: Json = False) -> int:
    """Read a meter once.

    A meter that counts energy is read twice, one period apart; the power is the mean in between.

    Parameters
    ----------
    name
        Name of the meter.
    as_json
        Print one JSON object.
    """
    import time
    from contextlib import closing
    from dataclasses import asdict

    from wattio.meters import open_meter

    with closing(open_meter(name)) as meter:
        facts, reading = meter.facts, meter.read()
        if reading.power_w is None:
            time.sleep(max(facts.period_s, 0.2))
            reading = meter.read()
    if as_json:
        output.print_json({"facts": asdict(facts), "reading": reading._asdict()})
        return EXIT_DONE
    power = "no power" if reading.power_w is None else f"{output.number(reading.power_w)} W"
    notes = [note for note in (_label(facts.estimate), facts.what) if note]
    output.say(f"{power}  ({', '.join(notes)})")
    if facts.untried:
        output.complain(f"this kind of meter has not been tried on {facts.untried}")
    return EXIT_DONE


@app.command(
    help_epilogue="""**Examples**

```
wattio meter record rapl: --out power.parquet --duration "10 min"
wattio meter record rapl:package-0 rapl:package-1 --rate "100 Hz" \\
    --out power.csv
```"""
)
def record(
    *names: str,
    out: Path,
    rate: str | None = None,
    duration: str | None = None,
    source: Annotated[Path | None, Parameter("--from")] = None,
) -> int:
    """Record meters into a file; Ctrl-C ends it and keeps what was recorded.

    Exit code 1 if a meter was lost meanwhile or readings could not be taken in time: the file has
    all samples that were taken, and messages say what is missing.

    Parameters
    ----------
    names
        Names of meters.
    out
        The file to write: .parquet or .csv.
    rate
        How often each meter is read, such as "100 Hz"; default: once in the meter's own period.
        A meter that sends by itself keeps its own rate.
    duration
        How long to record; default: until Ctrl-C.
    source
        Instead of recording: write the file from the folder of an earlier recording, which was kept
        because its file could not be written.
    """
    from wattio.cli.load_options import SPAN_S_LEAST, seconds
    from wattio.cli.meter_record import record_to_file, write_kept, writer_of

    if source is not None:
        if names or rate or duration:
            raise InputError("--from: writes what was recorded; give only --out with it")
        write_kept(source, out, writer_of(out))
        return EXIT_DONE
    if not names:
        raise InputError("wattio meter record needs the name of a meter")
    write = writer_of(out)
    rate_hz = None if rate is None else _hertz(rate)
    duration_s = None if duration is None else seconds("--duration", duration, SPAN_S_LEAST)
    return EXIT_DONE if record_to_file(names, out, write, rate_hz, duration_s) else EXIT_PROBLEM


@app.command(
    help_epilogue="**Examples**\n\n```\nwattio meter check rapl:\n"
    'wattio meter check "snmp://public@pdu/apc-rpdu2?outlet=1" --span "1 min"\n```'
)
def check(name: str, /, *, span: str = "10 s", as_json: Json = False) -> int:
    """Check that a meter works and advances, and measure its real period and lag.

    Reads it with this machine at rest, and then with all cores busy, each for the given span. The
    lag is how late the meter shows the step in power. A meter of another machine, or one that does
    not include the processor, shows no such step. Exit code 1 if a problem was found.

    Parameters
    ----------
    name
        Name of the meter.
    span
        How long it is read at rest, and again under load.
    as_json
        Print one JSON object.
    """
    from tempfile import TemporaryDirectory

    from wattio.cli.load_options import seconds
    from wattio.cli.meter_record import bar
    from wattio.recording import check as checking

    span_s = seconds("--span", span, 0.1, 86_400)
    with TemporaryDirectory(prefix="wattio-check-") as folder, bar(2 * span_s) as (advance, _):
        parts = {"at rest": 0.0, "under load": span_s}
        found = checking.check(
            name,
            span_s,
            Path(folder),
            lambda what, share: advance(parts[what] + share * span_s, what),
        )
    if as_json:
        output.print_json({"meter": found.facts.name, **found.as_json()})
    else:
        output.console().print(_check_table(found))
    for problem in found.problems:
        output.complain(problem)
    return EXIT_PROBLEM if found.problems else EXIT_DONE


@serve_app.command(
    help_format="markdown",
    help_epilogue="**Examples**\n\n```\nwattio meter serve ptdaemon --from rapl:\n"
    "wattio meter serve ptdaemon --from hwmon:power_meter/power1 --port 8889\n```",
)
def ptdaemon(
    *,
    source: Annotated[str, Parameter("--from")],
    host: str = "127.0.0.1",
    port: int = 8888,
) -> int:
    """Serve a meter by the protocol of SPEC's PTDaemon, until Ctrl-C.

    The protocol has no password: whoever reaches the port can read the meter. Not tested with
    SPEC's own programs.

    Parameters
    ----------
    source
        Name of the meter.
    host
        Address to listen on; by default only this machine can connect.
    port
        TCP port to listen on; 0 for any free one.
    """
    from contextlib import closing

    from wattio.meters import open_meter
    from wattio.meters.ptdaemon_server import Feed, Server

    with (
        closing(Feed(lambda: open_meter(source))) as feed,
        Server(feed, host, port) as server,
    ):
        output.say(f"{feed.facts.name} is served on {host}:{server.port}")
        server.serve_forever()
    return EXIT_DONE


def _hertz(text: str) -> float:
    from wattio.cli.load_options import quantity

    found = quantity("--rate", text, "frequency")
    if not 0 < found <= 1e6:
        raise InputError(f'--rate: "{text}"; allowed is above 0 Hz to 1 MHz')
    return found


def _label(estimate: bool) -> str:
    return "ESTIMATE, nothing is measured" if estimate else ""


def _check_table(found: Check) -> Table:
    table = Table(title=found.facts.name, title_justify="left", box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in _check_rows(found):
        table.add_row(name, value)
    return table


def _check_rows(found: Check) -> list[tuple[str, str]]:
    timing, updates, step = found.timing, found.updates, found.step
    what = found.facts.what
    rows = [
        ("what", f"{what} ({_label(True)})" if found.facts.estimate else what),
        ("power", f"{output.number(found.power_w_mean)} W on average"),
        (
            "readings",
            f"{timing.samples:,}, {output.number(timing.period_ms_median)} ms apart, jitter p99"
            f" {output.number(timing.jitter_ms_p99)} ms, {timing.gaps} gaps",
        ),
        (
            f"changes of its {updates.by}",
            f"{updates.changes:,}, {output.number(updates.period_ms_median)} ms apart"
            f" (p10 {output.number(updates.period_ms_p10)},"
            f" p90 {output.number(updates.period_ms_p90)});"
            f" it reports a period of {output.number(found.facts.period_s * 1e3)} ms",
        ),
    ]
    if step is None:
        rows.append(("lag", "no rise in power was seen when all cores became busy"))
    else:
        rows.append(
            (
                "lag",
                f"{step.lag_s:.2f} s after the load began; from {output.number(step.before_w)} to"
                f" {output.number(step.after_w)} W",
            )
        )
    if found.facts.untried:
        rows.append(("untried", f"on {found.facts.untried}"))
    return rows


def _plain_table(*columns: str) -> Table:
    table = Table(box=None)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
