"""The program of the workload `training`: reads what accelerators would take, at their pace.

One process for each client, a thread for each reader, and one for each accelerator that computes by
sleeping. What it is to do comes as JSON in its argument; what was ready when goes as JSON to its
standard output. Whatever goes wrong ends all of it with a line on standard error.

It is a process of its own, so that its threads take none of the time of the study's own (which
records meters), and speaks NBD by itself: libnbd's Python is in no registry, and fio cannot wait
for a computation. A folder's file is read past the page cache.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from pydantic import Field

from wattio.files.document import Strict
from wattio.workloads.nbd_client import Connection
from wattio.workloads.training_schedule import Dataset, Loader, Model

VERSION = 1


class Task(Strict):
    """What one client does: where (a file or an NBD server), how much, how often."""

    uri: str | None
    file: str | None
    direct: bool
    size_bytes: int
    model: Model
    accelerators: int
    readers: int
    prefetch: int
    steps: int
    seed: int
    client: int


class AcceleratorReport(Strict):
    """When each batch was there, in seconds since the program began, and what was read."""

    ready_s: list[float] = Field(min_length=1)
    bytes: int = Field(ge=0)
    requests: int = Field(ge=0)


class Report(Strict):
    """What the program tells."""

    version: int = VERSION
    begun_utc_ns: int
    accelerators: list[AcceleratorReport]


class Source(Protocol):
    """Where a reader reads."""

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill the target from an offset on."""

    def close(self) -> None:
        """Nothing more is read."""


class _File:
    """A file, read past the page cache where that was asked for."""

    def __init__(self, path: Path, *, direct: bool) -> None:
        self._number = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))

    def read_into(self, offset: int, target: memoryview) -> None:
        if os.preadv(self._number, [target], offset) != len(target):
            raise OSError(f"short read of {len(target)} B at {offset}")

    def close(self) -> None:
        os.close(self._number)


class _Accelerator:
    """One accelerator with its readers."""

    def __init__(self, task: Task, number: int, stop: _Stop, begun_s: float) -> None:
        self._task, self._stop, self._begun_s = task, stop, begun_s
        seed = (task.seed, task.client, number)
        self._dataset = Dataset(task.model, task.size_bytes, task.readers, seed)
        self._loader = Loader(task.model.samples, task.steps, task.readers, task.prefetch)
        self._changed = threading.Condition()
        self._ready_s = [0.0] * task.steps
        self._bytes = self._requests = 0
        works = [self._compute, *[partial(self._read, own) for own in range(task.readers)]]
        self.threads = [threading.Thread(target=stop.guarded, args=(work,)) for work in works]

    def report(self) -> AcceleratorReport:
        return AcceleratorReport(ready_s=self._ready_s, bytes=self._bytes, requests=self._requests)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _compute(self) -> None:
        """Take batch after batch; a step begins by the schedule, not by when this thread wakes."""
        end_s = 0.0
        for step in range(self._task.steps):
            with self._changed:
                self._changed.wait_for(lambda: self._stop.is_set or self._loader.is_ready())
                if self._stop.is_set:
                    return
                self._loader.take()
                self._changed.notify_all()
            end_s = max(self._ready_s[step], end_s) + self._task.model.computation_s
            self._stop.sleep(self._begun_s + end_s - time.monotonic())

    def _read(self, reader: int) -> None:
        source = _opened(self._task)
        # Anonymous memory begins at a page, as direct reading needs it.
        with mmap.mmap(-1, self._task.model.transfer_bytes) as memory, memoryview(memory) as target:
            try:
                for sample in self._loader.samples_of(reader):
                    if not self._one(source, target, sample):
                        return
            finally:
                source.close()

    def _one(self, source: Source, target: memoryview, sample: int) -> bool:
        """Read a sample as soon as it may be; whether to go on."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop.is_set or self._loader.may_begin(sample))
        reads = self._dataset.reads(sample)
        for offset, size in reads:
            if self._stop.is_set:
                return False
            with target[:size] as part:
                source.read_into(offset, part)
        with self._changed:
            self._bytes += sum(size for _, size in reads)
            self._requests += len(reads)
            batch = self._loader.ended(sample)
            if batch is not None:
                self._ready_s[batch] = time.monotonic() - self._begun_s
                self._changed.notify_all()
        return not self._stop.is_set


class _Stop:
    """Whether to stop, and why."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.why: str | None = None

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def sleep(self, seconds: float) -> None:
        """So long, or until all is stopped."""
        self._event.wait(max(0.0, seconds))

    def guarded(self, work: Callable[[], None]) -> None:
        """Do something; where it fails, all is stopped."""
        try:
            work()
        except OSError as error:
            self.why = self.why or (error.strerror or str(error))
            self._event.set()


def run(task: Task) -> Report:
    """Do it. Raises OSError where something cannot be read."""
    stop = _Stop()
    begun_utc_ns, begun_s = time.time_ns(), time.monotonic()
    all_of = [_Accelerator(task, number, stop, begun_s) for number in range(task.accelerators)]
    threads = [thread for one in all_of for thread in one.threads]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)
            if stop.is_set:
                for one in all_of:
                    one.wake()
    if stop.why is not None:
        raise OSError(stop.why)
    return Report(begun_utc_ns=begun_utc_ns, accelerators=[one.report() for one in all_of])


def _opened(task: Task) -> Source:
    if task.uri is not None:
        return Connection(task.uri)
    assert task.file is not None
    return _File(Path(task.file), direct=task.direct)


def main() -> int:
    """Read the task, do it, tell the report; the exit code is 1 where something went wrong."""
    try:
        report = run(Task.model_validate_json(sys.argv[1]))
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(report.model_dump_json() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
