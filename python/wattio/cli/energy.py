"""`wattio energy`: the energy of phases by power that was recorded, without a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from rich.table import Table

from wattio.cli import output
from wattio.errors import InputError
from wattio.files.named import open_file

if TYPE_CHECKING:
    from wattio.kinds.measurement.recorded import Evaluated
    from wattio.meters.channels import Channel

app = App(
    name="energy",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio energy power.csv --phases phases.csv
wattio energy power/spl.txt --phases run_1/mlperf_log_detail.txt
wattio energy spl.txt                     # its own marks are the phases
wattio energy "csv:pdu.csv?power=outlet1&unit=kW" \\
    "csv:counter.csv?energy=E&unit=Wh" --json
wattio energy power.parquet --phases phases.csv --ends samples
```

A file of phases has the columns phase, start and end. Exit code 1 if a phase is INVALID, 2 if a
file cannot be used.""",
)

_SCHEMES = ("csv", "parquet")


@app.default
def energy(
    *power: str,
    phases: Path | None = None,
    ends: Literal["interpolated", "samples"] = "interpolated",
    phases_zone: str = "+00:00",
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Compute energy, power, coverage and verdict of phases, by channel and in total.

    Power in watts is integrated over the phase. Of an energy counter (joules or watt-hours), the
    difference over the phase is taken. The rules are those of studies (`docs/measuring.md`).

    Parameters
    ----------
    power
        Recorded power: a text file of columns, a sample log of PTDaemon (MLPerf's spl.txt), or a
        .parquet file that wattio wrote; or `csv:FILE?...` with columns and units as
        `docs/meters.md` describes. Every meter, or column of power, is a channel; the total is
        their sum.
    phases
        Times of the phases: a text file with columns phase, start and end, or MLPerf's
        mlperf_log_detail.txt with power_begin and power_end. Default: the marks in the recorded
        power, or one phase over all of it.
    ends
        Where a phase begins and ends: at its own times, with the power interpolated there; or at
        its first and last sample, as in the methodology of the EEHPC working group.
    phases_zone
        Time zone of times in the file of phases that name none, such as +02:00. For the recorded
        power it is part of the name: `csv:spl.txt?zone=%2B02:00`.
    as_json
        Print one JSON object.
    """
    from wattio.kinds.measurement import phase_file, recorded
    from wattio.meters.columns import parse_zone

    if not power:
        raise InputError("wattio energy needs a file of recorded power")
    try:
        zone = parse_zone(phases_zone)
    except ValueError as error:
        raise InputError(f"--phases-zone: {error}") from None
    channels, bad = _channels(power)
    repeated = {label: one.repeated for label, one in channels.items() if one.repeated}
    asked = phase_file.read(phases, zone) if phases else recorded.phases_within(channels)
    found = recorded.evaluate(channels, asked, ends)
    twice = recorded.sum_of_others(channels)
    if as_json:
        absolute = next(iter(channels.values())).absolute
        told = [_as_json(one, absolute) for one in found]
        lines = {"unreadable_lines": bad, "repeated_lines": repeated}
        output.print_json({"ends": ends, "phases": told, "sum_of_others": twice, **lines})
    else:
        _show(found, bad, repeated)
        if twice is not None:
            output.note(
                f"wattio: {twice}: is the sum of the other channels, so the total counts all of it"
                " twice; name those that count, as in csv:FILE?power=COLUMN"
            )
    return 1 if any(one.verdict == "INVALID" for one in found) else 0


def _channels(given: tuple[str, ...]) -> tuple[dict[str, Channel], list[str]]:
    """All channels of all files, by labels of their own; lines that cannot be read."""
    from wattio.meters import channels as files

    found: dict[str, Channel] = {}
    bad: list[str] = []
    for name in (expanded for text in given for expanded in _names(text)):
        own, unreadable = files.channels(name)
        bad += unreadable
        stem = _stem(name)
        for label, channel in own.items():
            known = label or stem
            if known in found and label:
                known = f"{stem}/{known}"
            if known in found:
                raise InputError(f'channel "{known}" is named twice; name each file once')
            found[known] = channel
    return found, bad


def _names(text: str) -> list[str]:
    """A meter's name for each column of power of a file that has several, or else for the file."""
    from wattio.meters import lines
    from wattio.meters.name import of_file

    if text.partition(":")[0] in _SCHEMES and not Path(text).exists():
        return [text]
    if text.endswith(".parquet"):
        return [of_file("parquet", text)]
    try:
        with open_file(Path(text)) as file:
            several = lines.power_columns(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{text}: cannot be read: {getattr(error, 'strerror', error)}") from None
    if len(several) < 2:
        return [of_file("csv", text)]
    from urllib.parse import quote

    return [f"{of_file('csv', text)}?power={quote(name)}" for name in several]


def _stem(name: str) -> str:
    """What a channel is called that has no name of its own: its column, or its file."""
    from wattio.meters.name import parse

    parts = parse(name)
    asked = parts.query.get("power") or parts.query.get("energy")
    return asked or Path(parts.path).stem


def _is_estimate(label: str) -> bool:
    """Whether a channel was recorded from a model, which its name in a file of ours says."""
    return label.startswith("estimate:") or "/estimate:" in label


def _as_json(one: Evaluated, absolute: bool) -> dict[str, Any]:
    start, end = one.span.start.utc_ns, one.span.end.utc_ns
    return {
        "phase": one.span.name,
        "start": _stamp(start) if absolute else start / 1e9,
        "end": _stamp(end) if absolute else end / 1e9,
        "seconds": one.span.seconds,
        "channels": {label: asdict(amount) for label, amount in one.channels.items()},
        "total": asdict(one.total),
        "estimates": [label for label in one.channels if _is_estimate(label)],
        "verdict": one.verdict,
        "reasons": [verdict.reason for verdict in one.verdicts if verdict.reason],
    }


def _stamp(utc_ns: int) -> str:
    seconds, rest_ns = divmod(utc_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest_ns:09}Z"


def _show(found: list[Evaluated], bad: list[str], repeated: Mapping[str, int]) -> None:
    table = Table(box=None)
    for column in ("phase", "channel", "s", "J", "W", "least", "most", "samples", "there", ""):
        table.add_column(column, justify="left" if column in ("phase", "channel", "") else "right")
    for one in found:
        rows = dict(one.channels)
        guessed = {label for label in rows if _is_estimate(label)}
        guessed |= {"total"} if guessed else set()
        if len(rows) != 1:
            rows["total"] = one.total
        for label, amount in rows.items():
            means = map(output.number, (amount.energy_j, amount.power_w_mean))
            worst = one.verdict if label == next(reversed(rows)) else ""
            table.add_row(
                one.span.name,
                f"{label}, ESTIMATE" if label in guessed else label,
                output.number(one.span.seconds),
                *(output.bracketed(text, one.verdict != "INVALID") for text in means),
                output.number(amount.power_w_min),
                output.number(amount.power_w_max),
                str(amount.samples),
                output.share(amount.coverage),
                worst,
            )
    screen = output.console()
    screen.print(table)
    invalid = [one for one in found if one.verdict == "INVALID"]
    if any(own.energy_j is not None for one in invalid for own in one.channels.values()):
        output.say("in brackets: energy and power of an INVALID phase, which do not count")
    for one in found:
        for verdict in one.verdicts:
            if verdict.reason:
                text = f"{verdict.verdict}: {verdict.reason}"
                screen.print(text, markup=False, highlight=False, soft_wrap=True)
    if bad:
        text = f"wattio: {len(bad)} lines could not be read, the first: {bad[0]}"
        if len(bad) == 1:
            text = f"wattio: one line could not be read: {bad[0]}"
        output.note(text)
    for label, count in repeated.items():
        have = "one line has" if count == 1 else f"{count} lines have"
        output.note(f"wattio: {label}: {have} the time of another, of which the first counts")
