"""What `wattio meter record` does, and the progress that it shares with `wattio meter check`."""

from __future__ import annotations

import contextlib
import csv
import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.progress import BarColumn, Progress, TextColumn

from wattio.cli import output
from wattio.cli.out_path import writable
from wattio.errors import InputError, ResultError
from wattio.files.whole import whole_file
from wattio.meters.meter import Facts
from wattio.meters.name import public_name
from wattio.meters.samples import COLUMNS
from wattio.recording import Event, Recorder, Samples, Source
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
    """Record until the time is over or Ctrl-C; whether all meters gave all readings."""
    sources = [Source(label, name, rate_hz) for label, name in _labels(names).items()]
    # On the file's own file system there is room for what is recorded, or there is not for it.
    with (
        TemporaryDirectory(prefix=".wattio-recording-", dir=out.parent) as folder,
        Recorder(sources, Path(folder)) as recorder,
    ):
        facts = recorder.start()
        with _asked_to_stop() as stopped, bar(duration_s) as (advance, _):
            began_s = time.monotonic()
            while (passed_s := time.monotonic() - began_s) < (duration_s or math.inf):
                advance(passed_s, ", ".join(facts))
                if stopped() or not recorder.is_sampling:
                    break
                time.sleep(_POLL_S)
        recorder.stop()
        recorded = {source.label: recorder.read_all(source.label) for source in sources}
        events = recorder.events()
        write(out, recorded)
    return _report(out, recorded, facts, events, rate_hz)


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
    """Names by what is shown of them. Raises InputError for a meter that is there twice."""
    found: dict[str, str] = {}
    for name in names:
        label = public_name(name)
        if name in found.values():
            raise InputError(f'meter "{label}" is there twice')
        while label in found:
            label += "'"
        found[label] = name
    return found


@contextlib.contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """While entered, Ctrl-C and SIGTERM are noted; a second one ends the program."""
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
