"""A block trace, replayed by fio at its own pace on one file for each client.

All devices of the trace go to that file, which `prepare` writes in full. Offsets are divided by
`scale` where the trace's devices are larger than what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from wattio import _core
from wattio.clock import Span
from wattio.errors import WorkloadFailed
from wattio.files.document import Strict
from wattio.workloads import fio, fio_job
from wattio.workloads.fio_job import Group, Section
from wattio.workloads.workload import Context, Operation

STEP = "replay"

VERSION_LEAST = (3, 31)
"""The first fio that reads iologs of version 3, whose requests have times (fio(1))."""

_ACTIONS = ("read", "write")
_FILE = "data"
_IOLOG = "replay.iolog"
_BLOCK = 4096


class Options(Strict):
    """The trace, how it is read (as in `wattio trace info`), and how it is played."""

    trace: str  # a file, relative to the study, in any format that `wattio trace` reads
    format: str | None = None  # where its content does not say
    columns: str | None = None  # what the columns of a trace of text are
    # Times its rate: a share of its requests, or each several times.
    rate_scale: float = Field(default=1.0, gt=0, le=1e6)
    time_scale: float = Field(default=1.0, gt=0, le=1e6)  # times its span: 2 takes twice as long
    # Places are divided by it: the trace's devices are so much larger.
    scale: int = Field(default=1, ge=1, le=10**6)
    as_fast: bool = False  # leave the pauses out
    direct: bool = False  # past the page cache (O_DIRECT)
    ioengine: fio.Word = "psync"  # how fio asks for I/O
    iodepth: int = Field(default=1, ge=1, le=65536)  # requests in flight at most

    @model_validator(mode="after")
    def _readable(self) -> Options:
        _core.check_trace_reading(self.format, self.columns)
        return self


class Work:
    """The replay of one trace; fio does the work."""

    def __init__(self, options: Options, base: Path) -> None:
        """Paths are relative to `base`, the study's folder."""
        self._options = options
        self._path = base / options.trace
        self._iolog: list[str] | None = None
        self._fio = fio.Work(fio.Options(jobs=[_LAYOUT]), base)

    def probe(self) -> None:
        """Raise HostError where fio is missing or too old."""
        fio.check_version(VERSION_LEAST, "to replay a trace by its times")

    def describe(self) -> dict[str, Any]:
        """fio's version and the options."""
        version = self._fio.describe()["fio_version"]
        return {"fio_version": version, **self._options.model_dump(mode="json")}

    def steps(self) -> tuple[str, ...]:
        """One."""
        return (STEP,)

    def seconds_guess(self, clients: int) -> float:
        """A minute, stretched as the trace is: how long it lasts is known when it was read."""
        return 60.0 * (1.0 if self._options.as_fast else self._options.time_scale)

    def prepare(self, context: Context) -> None:
        """Convert the trace, and write the files that it is replayed on. Raises InputError."""
        converted = context.raw / "converted.iolog"
        _core.trace_convert(
            str(self._path),
            str(converted),
            "fio3",
            self._options.rate_scale,
            self._options.time_scale,
            format=self._options.format,
            columns=self._options.columns,
        )
        with converted.open(encoding="utf-8") as lines:
            self._iolog = list(replayed(lines, self._options.scale))
        converted.unlink()
        size = extent(self._iolog)
        lines_of_job = ("rw=write", "bs=1m", f"size={size}", f"filename={_FILE}", "end_fsync=1")
        raw = context.raw / "layout"
        raw.mkdir(exist_ok=True)
        layout = Group("layout", (Section("layout", lines_of_job),))
        self._fio.run_group(layout, context, raw, lambda _: {})

    def run(self, step: str, context: Context) -> list[Span]:
        """Replay in all clients. Raises WorkloadFailed."""
        if self._iolog is None:
            raise WorkloadFailed("trace: prepare comes before run")
        (context.raw / _IOLOG).write_text("".join(self._iolog), encoding="utf-8")
        options = self._options
        settings = {
            "read_iolog": _IOLOG,
            "replay_no_stall": str(int(options.as_fast)),
            "direct": str(int(options.direct)),
            "ioengine": options.ioengine,
            "iodepth": str(options.iodepth),
        }
        lines = tuple(f"{key}={value}" for key, value in settings.items())
        return self._fio.measure(step, Group(step, (Section(step, lines),)), context, _redirect)

    def clean(self, context: Context) -> None:
        """Remove the files."""
        self._fio.clean(context)


_LAYOUT = fio.JobEntry.model_validate(
    {"name": "layout", "rw": "write", "bs": "1 MiB", "size": "1 MiB"}
)


def _redirect(folder: Path) -> dict[str, str]:
    return {"replay_redirect": fio_job.escaped(folder / _FILE)}


def replayed(lines: Iterable[str], scale: int) -> Iterator[str]:
    """An iolog of version 3 as fio replays it right: later by a microsecond, offsets divided.

    fio takes a time of 0 for none, and would leave out the first pause.
    """
    for line in lines:
        words = line.split()
        if len(words) >= 3 and words[0].isdigit():
            words[0] = str(int(words[0]) + 1)
            if words[2] in _ACTIONS:
                words[3] = str(int(words[3]) // scale // _BLOCK * _BLOCK)
            yield " ".join(words) + "\n"
        else:
            yield line


def extent(lines: Iterable[str]) -> int:
    """How large a file must be that holds all requests, in bytes; whole MiB."""
    end = 1
    for line in lines:
        words = line.split()
        if len(words) == 5 and words[2] in _ACTIONS:
            end = max(end, int(words[3]) + int(words[4]))
    return -(-end // (1 << 20)) * (1 << 20)


def results(raw: Path) -> list[Operation]:
    """The results of the replay, over all clients. Raises ResultError."""
    return fio.results(raw)
