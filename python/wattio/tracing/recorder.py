"""One recording: from the kernel's tracepoint to a trace file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wattio import _core, signals
from wattio.errors import InputError
from wattio.tracing.events import EVENT, Tally, UnreadableEvent
from wattio.tracing.tracefs import Instance, TracefsError, tracefs

BUFFER_KIB_PER_CPU = 8192
"""Holds some 80,000 events per CPU: a second of what a fast NVMe drive can do."""

POLL_S = 0.05
"""Pause between two looks into the buffer; the recorder shall not disturb what it records."""

READ_BYTES = 1 << 16
WRITE_LINES = 10_000
MINOR_BITS = 20
"""Of a device number inside the kernel: `major << 20 | minor`."""


class RecordingError(Exception):
    """The recording failed or is not complete; nothing was written."""


@dataclass(frozen=True)
class Recording:
    """What was recorded."""

    ios: int
    """Requests with data, all of them in the file."""
    flushes: int
    """Flushes without data; they are not in the file."""
    discards: int
    others: int
    elapsed_s: float
    stopped: bool
    """Whether a signal ended it before its time."""


def device_number(device: str, sys_root: Path = Path("/sys")) -> tuple[int, int]:
    """Major and minor number of a disk, `vda` or `/dev/vda`. Raises InputError."""
    name = device.removeprefix("/dev/")
    folder = sys_root / "block" / name
    if not name or "/" in name or not (folder / "dev").is_file():
        known = sorted(path.name for path in (sys_root / "block").glob("*"))
        raise InputError(
            f"{device!r} is not a whole disk of this machine; disks: {', '.join(known)}"
        )
    major, minor = (folder / "dev").read_text().split(":")
    return int(major), int(minor)


def record(
    device: str,
    duration_s: float,
    target: Path,
    form: str = "wtrace",
    progress: Callable[[float, int], None] = lambda elapsed_s, ios: None,
) -> Recording:
    """Record the block requests of a disk for `duration_s` seconds into `target`.

    The time of a request is when it was queued at the disk (event block_bio_queue): its arrival,
    before the kernel merges, splits or holds it back. Requests of this process are left out; it
    writes nothing until the end. SIGINT, SIGTERM and SIGHUP end the recording early and keep it.
    `progress` gets the elapsed seconds and the requests so far.

    Raises RecordingError if events were lost or none came, TracefsError if the kernel's tracing
    cannot be used; `target` is then not there.
    """
    major, minor = device_number(device)
    condition = f"dev == {major << MINOR_BITS | minor} && common_pid != {os.getpid()}"
    tally = Tally()
    with signals.noted() as stopped, tracefs() as root, Instance(root) as instance:
        started_s = time.monotonic()
        pipe = instance.start(f"block/{EVENT}", condition, BUFFER_KIB_PER_CPU)
        try:
            reader = _Lines(pipe, tally)
            while (elapsed_s := time.monotonic() - started_s) < duration_s and not stopped():
                reader.drain()
                progress(elapsed_s, len(tally))
                time.sleep(min(POLL_S, max(0.0, duration_s - elapsed_s)))
            instance.stop()
            elapsed_s = time.monotonic() - started_s
            reader.drain()
        except UnreadableEvent as error:
            raise RecordingError(f"the kernel's text cannot be read: {error}") from error
        finally:
            os.close(pipe)
        lost = max(tally.lost, instance.dropped())
        was_stopped = stopped()
    if lost:
        raise RecordingError(
            f"{lost} events were lost, so the trace would have holes; nothing was written."
            " The machine was too busy to read the tracing buffer in time"
        )
    if not tally:
        raise RecordingError(
            f"no request reached {device} in {elapsed_s:.1f} s; nothing was written"
        )
    _write(tally, target, form)
    return Recording(
        ios=len(tally),
        flushes=tally.flushes,
        discards=tally.discards,
        others=tally.others,
        elapsed_s=elapsed_s,
        stopped=was_stopped,
    )


class _Lines:
    """Cuts the bytes of the tracing buffer into lines for the tally."""

    def __init__(self, pipe: int, tally: Tally) -> None:
        self._pipe = pipe
        self._tally = tally
        self._rest = b""

    def drain(self) -> None:
        """Read until the buffer is empty. Raises UnreadableEvent."""
        while True:
            try:
                chunk = os.read(self._pipe, READ_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                return
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._tally.add(line.decode("utf-8", "replace"))


def _write(tally: Tally, target: Path, form: str) -> None:
    """Hand the requests to the native converter, through memory: it orders, packs and renames."""
    descriptor = os.memfd_create("wattio-recording", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "w", encoding="ascii") as memory:
        for first in range(0, len(tally), WRITE_LINES):
            some = range(first, min(first + WRITE_LINES, len(tally)))
            memory.write("".join(tally.blkparse_line(index) for index in some))
        memory.flush()
        source = f"/proc/self/fd/{descriptor}"
        try:
            written = _core.trace_convert(source, str(target), form)
        except InputError as error:  # Of a source that nobody knows.
            raise InputError(str(error).removeprefix(f"{source}: ")) from None
    if written != len(tally):
        raise RecordingError(f"{written} of {len(tally)} requests were written to {target}")


__all__ = ["Recording", "RecordingError", "TracefsError", "device_number", "record"]
