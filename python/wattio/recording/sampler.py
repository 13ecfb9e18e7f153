"""The sampling process: opens meters, samples them, ends when its standard input does.

Started by `recorder.Recorder` with one JSON object on a line of standard input: `{"folder",
"sources": [{"label", "name", "rate_hz"}]}`. Answers with one line on standard output, `{"facts":
{label: {...}}}` or `{"error": "InputError" | "MeterRefused" | "MeterLost", "text": "..."}`.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from wattio import clock
from wattio.errors import InputError, ResultError, storage_reason
from wattio.meters import open_meter
from wattio.meters.meter import MeterLost, MeterRefused
from wattio.recording import journal, loops
from wattio.recording.deadlines import ClockWatch
from wattio.recording.fast import FastGroup, is_fast
from wattio.recording.watch import Tools, Watched

LOOK_S = 0.25
CLOSE_S = 2.0
"""How long meters may take to say good-bye."""


def main() -> None:
    """Serve one recorder; leaves through os._exit, whatever threads still wait for."""
    # Who records decides when it ends: Ctrl-C and a closed terminal are for the one in front.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    request = json.loads(sys.stdin.buffer.readline())
    folder = Path(request["folder"])
    stopped = threading.Event()
    try:
        events = journal.EventLog(folder / journal.EVENTS)
        tools = Tools(open_meter, events, stopped)
        sources = [
            _watched(folder / journal.samples_name(number), entry, tools)
            for number, entry in enumerate(request["sources"])
        ]
        failure = _open_all([watched for watched, _ in sources])
        found = [(watched.label, watched.facts) for watched, _ in sources]
        facts = {label: fact for label, fact in found if fact is not None}
        names = {entry["label"]: entry["name"] for entry in request["sources"]}
        if failure is None:
            journal.write_sources(folder, names, facts)
    except OSError as error:
        failure = OSError(error.errno, error.strerror, error.filename or str(folder))
    if failure is not None:
        _answer(told(failure, folder))
        os._exit(1)
    gc.collect()
    gc.disable()
    fast = _start(sources, stopped)
    _answer({"facts": {label: asdict(found) for label, found in facts.items()}})
    watch = [watched for watched, _ in sources]
    clocks = ClockWatch(clock.now())
    # An end of file also says that the recorder's process is gone, however it ended.
    while not ended.is_set() and not select.select([0], [], [], LOOK_S)[0]:
        _look(watch, fast, clocks)
    stopped.set()
    for group in fast:
        group.stop()
    _end(watch)
    os._exit(0)


def _start(
    sources: list[tuple[Watched, float | None]], stopped: threading.Event
) -> list[FastGroup]:
    """Start to sample everything."""
    fast = []
    for period_s, group in loops.plan(sources):
        if period_s is not None and is_fast(period_s, group):
            fast.append(FastGroup(period_s, group, stopped))
            continue
        loop = (period_s, group, stopped)
        threading.Thread(target=loops.run, args=loop, daemon=True, name=group[0].label).start()
    return fast


def _look(watch: list[Watched], fast: list[FastGroup], clocks: ClockWatch) -> None:
    """Write down what the meters said, and tell what happened to them and to the clock."""
    for group in fast:
        group.look()
    now = clock.now()
    jump_s = clocks.jump_s(now)
    for watched in watch:
        if jump_s is not None:
            watched.tell("clock", f"the wall clock was set by {jump_s:+.3f} s")
        watched.look(now)


def _watched(path: Path, entry: dict[str, Any], tools: Tools) -> tuple[Watched, float | None]:
    watched = Watched(entry["label"], entry["name"], tools, journal.RecordFile(path))
    return watched, entry["rate_hz"]


def _open_all(watch: list[Watched]) -> Exception | None:
    """Open all meters side by side; the first failure, without waiting for the others then."""
    done: SimpleQueue[Exception | None] = SimpleQueue()

    def open_one(watched: Watched) -> None:
        try:
            watched.open()
        except Exception as error:
            done.put(error)
        else:
            done.put(None)

    for watched in watch:
        threading.Thread(target=open_one, args=(watched,), daemon=True).start()
    return next((failure for _ in watch if (failure := done.get()) is not None), None)


def _end(watch: list[Watched]) -> None:
    """Write everything down, then let go of the meters, for as long as that may take."""
    now = clock.now()
    for watched in watch:
        watched.file.flush()
        watched.report(now)
    closing = [threading.Thread(target=watched.close, daemon=True) for watched in watch]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(CLOSE_S)
    for watched in watch:
        watched.file.flush()


def told(failure: Exception, folder: Path) -> dict[str, Any]:
    """What the recorder's process raises again; `system` is what the system said of our files."""
    kind = _kind(failure, folder)
    found: dict[str, Any] = {"error": kind, "text": _text(failure)}
    if isinstance(failure, OSError) and kind == ResultError.__name__:
        found["system"] = [failure.errno, failure.strerror, failure.filename]
    return found


def _kind(failure: Exception, folder: Path) -> str:
    # What befell our own files, such as a full disk, is no fault of a meter's.
    if isinstance(failure, OSError) and Path(failure.filename or "").is_relative_to(folder):
        return ResultError.__name__
    for kind in (InputError, MeterRefused, MeterLost):
        if isinstance(failure, kind):
            return kind.__name__
    return MeterLost.__name__


def _text(failure: Exception) -> str:
    reason = storage_reason(failure) if isinstance(failure, OSError) else None
    return reason or str(failure)


def _answer(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
