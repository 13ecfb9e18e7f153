"""What `wattio meter record` does, and the progress that it shares with `wattio meter check`."""

from __future__ import annotations

import contextlib
import csv
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn

from wattio import signals
from wattio.cli import output
from wattio.cli.output_path import writable
from wattio.errors import InputError, ResultError
from wattio.files.whole import whole_file
from wattio.meters.meter import Facts
from wattio.meters.name import public_name
from wattio.meters.samples import COLUMNS
from wattio.recording import Event, Recorder, Samples, Source, journal, unwritten
from wattio.recording.cadence import timing

Writer = Callable[[Path, Mapping[str, Samples]], None]
Advance = Callable[[float, str], None]

_POLL_S = 0.1
_ENDINGS = (".parquet", ".csv")


def writer_of(out: Path) -> Writer:
    """What writes a file of that name. Raises InputError before anything is recorded."""
    from wattio.meters import parquet

    if out.suffix not in _ENDINGS:
        raise InputError(f"--out: {out}: is neither .parquet nor .csv")
    writable("--out", out)
    return parquet.write if out.suffix == ".parquet" else write_csv


def write_csv(path: Path, recorded: Mapping[str, Samples]) -> None:
    """Samples as text, a column empty where there is no value. Raises ResultError."""
    try:
        with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["meter", *COLUMNS])
            for label, samples in recorded.items():
                lists = (getattr(samples, name).tolist() for name in COLUMNS)
                for row in zip(*lists, strict=True):
                    rows.writerow(
                        [label, *("" if isinstance(v, float) and math.isnan(v) else v for v in row)]
                    )
    except OSError as error:
        raise ResultError(f"{path}: cannot be written: {error.strerror}") from error


def record_to_file(
    names: Sequence[str],
    out: Path,
    write: Writer,
    rate_hz: float | None,
    duration_s: float | None,
) -> bool:
    """Record until the time is over or Ctrl-C; whether all meters gave all readings.

    Raises ResultError where the file cannot be written, and Cancelled on a second Ctrl-C, with the
    folder that holds what was recorded.
    """
    sources = [Source(label, name, rate_hz) for label, name in _labels(names).items()]
    with (
        unwritten.beside(out, ".wattio-recording-") as place,
        Recorder(sources, place.path) as recorder,
    ):
        facts = recorder.start()
        # Until all is written: Ctrl-C at its end would leave nothing but the folder.
        with place.needed(), signals.noted() as stopped:
            _wait(recorder, ", ".join(facts), duration_s, stopped)
            recorder.stop()
            recorded = {source.label: recorder.read_all(source.label) for source in sources}
            events = recorder.events()
            write(out, recorded)
    return _report(out, recorded, facts, events, rate_hz)


def _wait(
    recorder: Recorder, what: str, duration_s: float | None, stopped: Callable[[], bool]
) -> None:
    """Until the time is over, somebody asks for the end, or nothing is sampled any more."""
    with bar(duration_s) as (advance, _):
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < (duration_s or math.inf):
            advance(passed_s, what)
            if stopped() or not recorder.is_sampling:
                return
            time.sleep(_POLL_S)


def write_kept(folder: Path, out: Path, write: Writer) -> None:
    """Write what was recorded into a folder that an error left. Raises ResultError."""
    write(out, journal.read_folder(folder))
    output.say(str(out))


@contextlib.contextmanager
def bar(total_s: float | None) -> Iterator[tuple[Advance, Progress]]:
    """A bar over some time, or a count of it where its end is open; nothing without a terminal."""
    console = output.messages()
    shown = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(
            "{task.completed:.0f} s" + ("" if total_s is None else " of {task.total:.0f} s")
        ),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with shown:
        task = shown.add_task("", total=total_s)
        yield lambda at_s, what: shown.update(task, completed=at_s, description=what), shown


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Names by what is shown of them. Raises InputError for a meter that is named twice."""
    found: dict[str, str] = {}
    for name in names:
        label = public_name(name)
        if name in found.values():
            raise InputError(f'meter "{label}" is named twice')
        while label in found:
            label += "'"
        found[label] = name
    return found


def _report(
    out: Path,
    recorded: Mapping[str, Samples],
    facts: Mapping[str, Facts],
    events: Sequence[Event],
    rate_hz: float | None,
) -> bool:
    """Say what was recorded, and what went wrong; whether nothing did."""
    console, messages = output.console(), output.messages()
    for label, samples in recorded.items():
        fact = facts[label]
        period_s = fact.period_s if rate_hz is None or fact.streams else 1 / rate_hz
        found = timing(samples, period_s)
        estimate = ", ESTIMATE" if fact.estimate else ""
        text = (
            f"{label}: {found.samples:,} readings in {found.span_s:.1f} s, jitter p99"
            f" {output.number(found.jitter_ms_p99)} ms, {found.gaps} gaps{estimate}"
        )
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    shown: Counter[str] = Counter()
    for event in events:
        shown[event.label] += 1
        if shown[event.label] <= 10:
            text = f"wattio: {event.label}: {event.kind}: {event.text}"
            messages.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(str(out), markup=False, highlight=False, soft_wrap=True)
    ended = "the recording has ended"
    return all(event.kind == "refused" and event.text.endswith(ended) for event in events)
